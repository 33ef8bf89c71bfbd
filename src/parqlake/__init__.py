"""parqlake: a Pythonic, ACID lakehouse on plain Parquet.

Example:
    >>> import parqlake
    >>> lake = parqlake.connect("warehouse")    # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from parqlake._version import __version__

if TYPE_CHECKING:
    from parqlake.connectors.sql_result import SqlResult
    from parqlake.core import errors
    from parqlake.core.errors import ParqlakeError
    from parqlake.core.lineage import Lineage
    from parqlake.core.maintenance.health import HealthFinding
    from parqlake.core.ports import WrittenFile
    from parqlake.core.records_port import ABSENT, ANY, Record
    from parqlake.core.runs import RunInput, RunOutput, RunRecord, RunStatus
    from parqlake.lost_catalog import rebuild
    from parqlake.table.clustering import Clustering
    from parqlake.table.exporting import ExportResult
    from parqlake.table.health import Health, LakeHealth
    from parqlake.table.importing import ImportResult
    from parqlake.table.lake import Lake
    from parqlake.table.maintained import LakeMaintained, Maintained
    from parqlake.table.maintenance_stats import TableMaintenance
    from parqlake.table.merge_builder import MergeBuilder
    from parqlake.table.progress import Progress
    from parqlake.table.result import DeleteResult, MergeResult, UpdateResult, WriteResult
    from parqlake.table.scan import Scan
    from parqlake.table.table import Table
    from parqlake.table.transaction import Transaction
    from parqlake.wiring import connect

__all__ = [
    "ABSENT",
    "ANY",
    "Clustering",
    "DeleteResult",
    "ExportResult",
    "Health",
    "HealthFinding",
    "ImportResult",
    "Lake",
    "LakeHealth",
    "LakeMaintained",
    "Lineage",
    "Maintained",
    "MergeBuilder",
    "MergeResult",
    "ParqlakeError",
    "Progress",
    "Record",
    "RunInput",
    "RunOutput",
    "RunRecord",
    "RunStatus",
    "Scan",
    "SqlResult",
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
    "ABSENT": "parqlake.core.records_port",
    "ANY": "parqlake.core.records_port",
    "Clustering": "parqlake.table.clustering",
    "DeleteResult": "parqlake.table.result",
    "ExportResult": "parqlake.table.exporting",
    "Health": "parqlake.table.health",
    "HealthFinding": "parqlake.core.maintenance.health",
    "ImportResult": "parqlake.table.importing",
    "Lake": "parqlake.table.lake",
    "LakeHealth": "parqlake.table.health",
    "LakeMaintained": "parqlake.table.maintained",
    "Lineage": "parqlake.core.lineage",
    "Maintained": "parqlake.table.maintained",
    "MergeBuilder": "parqlake.table.merge_builder",
    "MergeResult": "parqlake.table.result",
    "ParqlakeError": "parqlake.core.errors",
    "Progress": "parqlake.table.progress",
    "Record": "parqlake.core.records_port",
    "RunInput": "parqlake.core.runs",
    "RunOutput": "parqlake.core.runs",
    "RunRecord": "parqlake.core.runs",
    "RunStatus": "parqlake.core.runs",
    "Scan": "parqlake.table.scan",
    "SqlResult": "parqlake.connectors.sql_result",
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
