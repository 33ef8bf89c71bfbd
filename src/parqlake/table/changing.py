"""The calls of a table that change rows: merge, delete, update."""

from __future__ import annotations

from parqlake.core.model import TableInfo
from parqlake.table.context import LakeContext


class Changing:
    """What `Table` offers to change its rows."""

    _context: LakeContext
    _info: TableInfo
