"""The table that a writing call works on, as it was when the call, or its latest attempt, began."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.model import Head, TableInfo
from parqlake.core.ports import CatalogReader, Engine
from parqlake.table.context import LakeContext
from parqlake.table.versions import live_head


@dataclass(frozen=True, slots=True)
class Target:
    """A table at one version, and who works on it."""

    info: TableInfo
    head: Head
    schema: pa.Schema
    engine: Engine

    def newest(self, context: LakeContext) -> Target:
        """The same table as it is now."""
        with context.catalog.read() as reader:
            return newest_target(reader, self.info, self.engine)


def newest_target(reader: CatalogReader, info: TableInfo, engine: Engine) -> Target:
    """The table as it is now, or `TableNotFoundError` if it was dropped."""
    head = live_head(reader, info)
    current = reader.table_by_id(info.table_id) or info
    return Target(current, head, reader.schema(info.table_id, head.schema_id), engine)
