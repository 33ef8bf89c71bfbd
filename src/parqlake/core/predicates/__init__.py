"""The predicate language: `parse` reads every spelling of `where`, `bind` fits it to a schema."""

from parqlake.core.predicates.bind import bind
from parqlake.core.predicates.parse import parse

__all__ = ["bind", "parse"]
