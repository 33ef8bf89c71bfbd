"""Scans as tables of a DataFusion context."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from parqlake.connectors.scan_dataset import ScanDataset
from parqlake.core.errors import InvalidOptionError, MissingExtraError
from parqlake.core.names import TableName
from parqlake.table.scan import Scan


def to_datafusion(scan: Scan, ctx: Any = None, name: str | None = None) -> Any:
    """A DataFrame of the context over the scan; with a name, also a table."""
    datafusion = import_datafusion()
    if ctx is None:
        ctx = datafusion.SessionContext()
    elif not is_context(ctx):
        raise InvalidOptionError(f"ctx={ctx!r} is no DataFusion context; give a datafusion.SessionContext()")
    table = datafusion.catalog.Table(ScanDataset(scan))
    if name is None:
        return ctx.read_table(table)
    if not isinstance(name, str) or not name.strip():
        raise InvalidOptionError(f"name={name!r} is no name for a table; give text, or leave it out")
    schema = ctx.catalog().schema()
    _replace_table(schema, name, table)
    return ctx.read_table(table)


def attach_datafusion(scans: dict[TableName, Scan], ctx: Any) -> None:
    """Makes each table known under its name: a schema for each namespace, in the context's own catalog."""
    datafusion = import_datafusion()
    catalog = ctx.catalog()
    for namespace in dict.fromkeys(name.namespace for name in scans):
        if namespace not in catalog.schema_names():
            catalog.register_schema(namespace, datafusion.catalog.Schema.memory_schema())
    for name, scan in scans.items():
        _replace_table(catalog.schema(name.namespace), name.name, datafusion.catalog.Table(ScanDataset(scan)))


def is_context(thing: Any) -> bool:
    """Whether it is a context of DataFusion; loads nothing to find out."""
    kinds = type(thing).__mro__
    return any(kind.__module__.startswith("datafusion") and kind.__name__ == "SessionContext" for kind in kinds)


def import_datafusion() -> Any:
    """The package, or `MissingExtraError`."""
    if find_spec("datafusion") is None:
        raise MissingExtraError("datafusion", "datafusion")
    import datafusion
    import datafusion.catalog

    return datafusion


def _replace_table(schema: Any, name: str, table: Any) -> None:
    if schema.table_exist(name):
        schema.deregister_table(name)
    schema.register_table(name, table)
