"""The calls of a table that change its columns, all metadata only."""

from __future__ import annotations

from parqlake.core.model import TableInfo
from parqlake.table.context import LakeContext


class Evolving:
    """What `Table` offers to change its schema."""

    _context: LakeContext
    _info: TableInfo
