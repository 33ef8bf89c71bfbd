"""Which part of a predicate Arrow's dataset may take, and which is computed afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parqlake.core.predicates.tree import And, Predicate, columns_of, conjuncts


@dataclass(frozen=True, slots=True)
class SplitFilter:
    """A predicate in two parts, both of which a row has to pass."""

    pushed: Any
    """For the scanner; None if there is none."""
    after: Any
    """For the batches that come out of it; None if there is none."""
    columns: frozenset[str]
    """Top-level columns that `after` looks at."""


def split_filter(predicate: Predicate | None) -> SplitFilter:
    """Keeps conditions on floats away from the dataset.

    Arrow takes a row group whose min and max are the same number to hold nothing else, though a NaN may
    stand beside it, and so answers conditions on NaN without looking. The catalog has chosen row groups by
    better statistics already, so that little is lost.
    """
    items = conjuncts(predicate) if predicate is not None else ()
    floats = [item for item in items if _on_floats(item)]
    others = [item for item in items if not _on_floats(item)]
    columns = frozenset(column.path[0] for item in floats for column in columns_of(item))
    return SplitFilter(_expression(others), _expression(floats), columns)


def whole_filter(predicate: Predicate | None) -> SplitFilter:
    """Keeps all conditions away from the dataset: for rows that are not yet what the predicate speaks of."""
    if predicate is None:
        return SplitFilter(None, None, frozenset())
    return SplitFilter(None, _expression((predicate,)), frozenset(column.path[0] for column in columns_of(predicate)))


def _on_floats(item: Predicate) -> bool:
    return any(column.type is None or pa.types.is_floating(column.type) for column in columns_of(item))


def _expression(items: Iterable[Predicate]) -> Any:
    from parqlake.core.predicates.to_arrow import to_arrow

    found = tuple(items)
    return to_arrow(found[0] if len(found) == 1 else And(found)) if found else None
