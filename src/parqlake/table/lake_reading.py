"""The calls of a lake that read many tables at once, all of them as they were at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import TableNotFoundError, suggestion
from parqlake.core.model import TableInfo
from parqlake.core.names import TableName, check_namespace
from parqlake.core.ports import CatalogReader
from parqlake.table.context import LakeContext
from parqlake.table.scan import Scan, ScanRequest
from parqlake.table.versions import Moment, resolve


@dataclass(frozen=True, slots=True)
class Pin:
    """A table, and which version of it."""

    name: TableName
    version: int | str | None = None
    as_of: Moment | None = None


class LakeReading:
    """What `Lake` offers to those who ask in SQL, here or in an engine that they have open."""

    _context: LakeContext

    def attach(self, target: Any, *, namespace: str | None = None) -> list[str]:
        """Makes all tables known to a DuckDB connection or a DataFusion context, under their names.

        `sales.orders` becomes a view `orders` in the schema `sales`, or a table there. It shows the version that is the
        newest now, all tables as of the same moment; attach again to see later ones. In DuckDB the views belong to the
        connection's database: if that is a file, they are stored in it. Files are kept from vacuum for 24 hours.

        Args:
            target: a connection of `duckdb.connect()`, or a `datafusion.SessionContext`.
            namespace: only the tables of this namespace.

        Returns:
            The names of the tables.

        Raises:
            InvalidOptionError: the target is neither, or it cannot tell two tables apart by their names.

        Example:
            >>> con = duckdb.connect()                                      # doctest: +SKIP
            >>> lake.attach(con)                                            # doctest: +SKIP
            ['sales.lines', 'sales.orders']
            >>> con.sql("select count(*) from sales.orders").fetchone()     # doctest: +SKIP
        """
        if namespace is not None:
            check_namespace(namespace)
        return list(self._context.connect_to("attach")(self._context, target, namespace))

    def sql(
        self,
        query: str,
        *,
        engine: str = "duckdb",
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        version: int | str | Mapping[str, int | str] | None = None,
        as_of: Moment | None = None,
    ) -> Any:
        """Asks in SQL; conditions of the query prune files through the catalog before it runs.

        Tables are written `namespace.name`, and `sales.orders@7` or `sales."orders@release-1"` for a version or a tag.
        All tables are read as of the same moment. Nothing but the tables of the lake can be read, and nothing be
        written.

        Args:
            query: one SELECT, as DuckDB or DataFusion reads it.
            engine: `"duckdb"` or `"datafusion"`.
            parameters: values for `?` or `$1` as a list, for `$name` as a mapping.
            version: a version or tag for all tables that name none themselves, or one for each: `{"sales.orders": 7}`.
            as_of: a moment, for all tables that name no version themselves.

        Returns:
            A result with `to_arrow()`, `to_batches()`, `to_pandas()`, `to_polars()`, `schema` and `columns`; it can
            be appended to a table.

        Raises:
            InvalidQueryError: the query cannot be read, or would do more than read tables of the lake.
            TableNotFoundError: it names a table that is not there.
            MissingExtraError: the engine is not installed.

        Example:
            >>> lake.sql("select region, sum(amount) from sales.orders where day >= ? group by all",
            ...          parameters=[day]).to_pandas()                                              # doctest: +SKIP
            >>> lake.sql("select count(*) from sales.orders@7").to_arrow()                          # doctest: +SKIP
        """
        run = self._context.connect_to("sql")
        return run(self._context, query, engine=engine, parameters=parameters, version=version, as_of=as_of)


def all_scans(context: LakeContext, namespace: str | None) -> dict[TableName, Scan]:
    """Scans of all tables at their newest versions, as of one moment."""
    with context.catalog.read() as reader:
        names = sorted(info.name for info in reader.tables(namespace))
        return {name: _pinned(context, reader, Pin(name)) for name in names}


def pinned_scans(context: LakeContext, pins: Sequence[Pin]) -> list[Scan]:
    """A scan for each pin, as of one moment; `TableNotFoundError` for a name that no table has."""
    with context.catalog.read() as reader:
        return [_pinned(context, reader, pin) for pin in pins]


def found(reader: CatalogReader, name: TableName) -> TableInfo:
    """The table of that name, or `TableNotFoundError` with the closest name."""
    info = reader.table(name)
    if info is None:
        known = [str(other.name) for other in reader.tables()]
        shown = ", ".join(known[:20]) or "none yet"
        raise TableNotFoundError(f'no table "{name}";{suggestion(str(name), known)} tables: {shown}')
    return info


def _pinned(context: LakeContext, reader: CatalogReader, pin: Pin) -> Scan:
    info = found(reader, pin.name)
    number, schema_id = resolve(reader, info, version=pin.version, as_of=pin.as_of)
    return Scan(context, ScanRequest(info, number, reader.schema(info.table_id, schema_id)))
