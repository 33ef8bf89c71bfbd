"""parqlake: a Pythonic, ACID lakehouse on plain Parquet.

Example:
    >>> import parqlake
    >>> lake = parqlake.connect("warehouse")    # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from parqlake._version import __version__

if TYPE_CHECKING:
    from parqlake.core import errors
    from parqlake.core.errors import ParqlakeError
    from parqlake.core.ports import WrittenFile
    from parqlake.lost_catalog import rebuild
    from parqlake.table.clustering import Clustering
    from parqlake.table.lake import Lake
    from parqlake.table.maintenance_stats import TableMaintenance
    from parqlake.table.merge_builder import MergeBuilder
    from parqlake.table.result import DeleteResult, MergeResult, UpdateResult, WriteResult
    from parqlake.table.scan import Scan
    from parqlake.table.table import Table
    from parqlake.table.transaction import Transaction
    from parqlake.wiring import connect

__all__ = [
    "Clustering",
    "DeleteResult",
    "Lake",
    "MergeBuilder",
    "MergeResult",
    "ParqlakeError",
    "Scan",
    "Table",
    "TableMaintenance",
    "Transaction",
    "UpdateResult",
    "WriteResult",
    "WrittenFile",
    "__version__",
    "connect",
    "errors",
    "rebuild",
]

_HOMES = {
    "Clustering": "parqlake.table.clustering",
    "DeleteResult": "parqlake.table.result",
    "Lake": "parqlake.table.lake",
    "MergeBuilder": "parqlake.table.merge_builder",
    "MergeResult": "parqlake.table.result",
    "ParqlakeError": "parqlake.core.errors",
    "Scan": "parqlake.table.scan",
    "Table": "parqlake.table.table",
    "TableMaintenance": "parqlake.table.maintenance_stats",
    "Transaction": "parqlake.table.transaction",
    "UpdateResult": "parqlake.table.result",
    "WriteResult": "parqlake.table.result",
    "WrittenFile": "parqlake.core.ports",
    "connect": "parqlake.wiring",
    "rebuild": "parqlake.lost_catalog",
}


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used, so that `import parqlake` costs next to nothing."""
    from importlib import import_module

    if name == "errors":
        return import_module("parqlake.core.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'parqlake' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
