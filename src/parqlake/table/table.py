"""Table: a named list of versions, and the calls that read one or make the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError, VersionNotFoundError
from parqlake.core.model import Operation, TableInfo, Tag
from parqlake.core.names import check_tag_name
from parqlake.core.predicates import bind, parse
from parqlake.core.schema import without_ids
from parqlake.table import history as histories
from parqlake.table import writes
from parqlake.table.changes import TableChanges
from parqlake.table.changing import Changing
from parqlake.table.context import EngineChoice, LakeContext, now
from parqlake.table.evolving import Evolving
from parqlake.table.history import HistoryEntry
from parqlake.table.keeping import Keeping
from parqlake.table.maintaining import Maintaining
from parqlake.table.options import WriteOptions, check_properties
from parqlake.table.result import WriteResult
from parqlake.table.runs import TableLineage
from parqlake.table.scan import Scan, ScanRequest, check_columns, check_limit
from parqlake.table.versions import Moment, check_live, check_only_added, live_head, resolve, resolve_after
from parqlake.table.writes import Call

if TYPE_CHECKING:
    from parqlake.table.exporting import ExportResult


class Table(Changing, Evolving, Keeping, Maintaining, TableChanges, TableLineage):
    """One table of a lake. Handles are cheap and hold no state: each call sees the newest version.

    Example:
        >>> orders = lake.table("sales.orders")                     # doctest: +SKIP
        >>> orders.append(frame)                                    # doctest: +SKIP
        >>> orders.scan("amount > 10", columns=["id"]).to_arrow()   # doctest: +SKIP
        >>> orders.scan(version=1).count()                          # doctest: +SKIP
    """

    def __init__(self, context: LakeContext, table_id: int) -> None:
        """Made by `Lake.table` and `Lake.create_table`."""
        self._context = context
        self._table_id = table_id
        with context.catalog.read() as reader:
            found = reader.table_by_id(table_id)
        assert found is not None, table_id
        self._info = found

    # -------------------------------------------------------------------------------------------- reading

    def scan(
        self,
        where: Any = None,
        *,
        columns: Sequence[str] | None = None,
        version: int | str | None = None,
        as_of: Moment | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Prepares a read of one version; nothing is read yet.

        Args:
            where: a SQL predicate, a `pyarrow.compute` expression, or tuples like `[("day", ">=", d)]`.
            columns: the columns to read, in this order; all if left out.
            version: a version number or the name of a tag; the newest if left out.
            as_of: a moment: the version that was the newest then.
            limit: at most so many rows.

        Raises:
            InvalidPredicateError: the predicate cannot be read or does not fit the columns.
            ColumnNotFoundError: a column does not exist; the message suggests the closest.
            VersionNotFoundError: there is no such version, tag or moment.
        """
        catalog = self._context.catalog
        if version is None and as_of is None:
            head, schema = catalog.newest(self._table_id)
            number = check_live(head, self._info).version
        else:
            with catalog.read() as reader:
                number, schema_id = resolve(reader, self._info, version=version, as_of=as_of)
                schema = reader.schema(self._table_id, schema_id)
        request = ScanRequest(
            info=self._info,
            version=number,
            schema=schema,
            predicate=bind(parse(where), schema),
            columns=check_columns(columns, schema),
            limit=check_limit(limit),
        )
        return Scan(self._context, request)

    def added(
        self,
        after: int | str,
        until: int | str | None = None,
        *,
        where: Any = None,
        columns: Sequence[str] | None = None,
        allow_removals: bool = False,
    ) -> Scan:
        """Prepares a read of the rows that were added after one version, up to another.

        Args:
            after: a version number or a tag; 0 is the empty table.
            until: the last version to look at; the newest if left out.
            where: see `scan`.
            columns: see `scan`.
            allow_removals: versions that removed or replaced rows are an error, since reading new rows alone would
                miss that. True reads the files that they added; rows that were copied there come again.

        Raises:
            NotAppendOnlyError: a version between the two removed or replaced rows.

        Example:
            >>> orders.added(after=seen, until=orders.version).to_arrow()   # doctest: +SKIP
        """
        with self._context.catalog.read() as reader:
            first = resolve_after(reader, self._info, after)
            last, schema_id = resolve(reader, self._info, version=until, as_of=None)
            if not allow_removals:
                check_only_added(reader, self._info, first, last)
            schema = reader.schema(self._table_id, schema_id)
        request = ScanRequest(
            info=self._info,
            version=last,
            schema=schema,
            predicate=bind(parse(where), schema),
            columns=check_columns(columns, schema),
            added_after=first,
        )
        return Scan(self._context, request)

    # -------------------------------------------------------------------------------------------- writing

    def append(
        self,
        data: Any,
        *,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> WriteResult:
        """Adds rows as one new version. Never conflicts with other writers; visible whole or not at all.

        Args:
            data: a pandas, Polars (lazy ones too), DataFusion, Daft or Spark frame, an Arrow table, batches or reader,
                a DuckDB relation, a scan, a result of `lake.sql`, anything with `__arrow_c_stream__`, or the
                path of a Parquet file or folder.
            engine: who writes the files: `"pyarrow"`, `"duckdb"`, `"spark"`; the lake's engine if left out, and
                Spark for a Spark frame.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            options: `target_mb_per_file` (files are closed at about this size), `max_rows_per_file` (a hard upper
                bound), `row_group_size` (the most rows in a row group; DuckDB writes no fewer than 2,048),
                `compression` (zstd, snappy, gzip, lz4, brotli or none), `file_visitor` (called with a
                `WrittenFile(path, metadata, size)` for each finished file), `schema_mode` (`"strict"` refuses other
                columns, `"merge"` adds new ones and fills missing ones, `"promote"` also widens types), `progress`
                (called with a `Progress` as the work goes on; see `parqlake.connect`).

        Raises:
            SchemaMismatchError: the data's columns or types do not fit; each difference is named.
            ConstraintError: NULLs in a NOT NULL column, or rows that break a check; up to five are shown.

        Example:
            >>> orders.append(frame, idempotency_key="load/2026-01-31").version   # doctest: +SKIP
            3
        """
        call = Call(Operation.APPEND, engine, message, idempotency_key)
        return writes.append(self._context, self._info, data, call=call, options=options)

    def overwrite(
        self,
        data: Any,
        where: Any = None,
        *,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> WriteResult:
        """Replaces all rows, or those that `where` selects, in one step; readers see the old or the new.

        Files in which every row is replaced are not read; of others the remaining rows are copied. With `where`, the
        new rows must match it too, so that a repeat replaces exactly what the first run wrote. If another commit adds
        or removes matching rows meanwhile, the replacement is worked out again on the newest version.

        Args:
            data: the new rows; see `append`, as for the options.
            where: which rows to replace; all if left out.
            engine: who writes the files.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            options: see `append`.

        Raises:
            ConstraintError: new rows that do not match `where`.
            ConflictError: others changed the same rows again and again.

        Example:
            >>> orders.overwrite(monday, where="day = '2026-11-09'")   # doctest: +SKIP
        """
        call = Call(Operation.OVERWRITE, engine, message, idempotency_key)
        return writes.overwrite(self._context, self._info, data, where, call=call, options=options)

    def restore(
        self,
        version: int | str | None = None,
        *,
        as_of: Moment | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> WriteResult:
        """Makes an earlier version the newest one again, as a new version. No data is read or written.

        Example:
            >>> orders.restore(version=3)       # doctest: +SKIP
            >>> orders.restore("release-1")     # doctest: +SKIP
        """
        if version is None and as_of is None:
            raise InvalidOptionError("say what to restore: version=3, a tag's name, or as_of=…")
        call = Call(Operation.RESTORE, None, message, idempotency_key)
        return writes.restore(self._context, self._info, version=version, as_of=as_of, call=call)

    # -------------------------------------------------------------------------------------------- knowing

    @property
    def name(self) -> str:
        """The name, `namespace.name`, as it is now."""
        return str(self._fresh().name)

    @property
    def info(self) -> TableInfo:
        """What the catalog says of the table."""
        return self._info

    @property
    def location(self) -> str:
        """The table's folder, relative to the lake's root."""
        return self._info.location

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns."""
        return self._info.partition_by

    @property
    def sort_by(self) -> tuple[str, ...]:
        """The columns that rows are sorted by inside each row group."""
        return self._info.sort_by

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, as they are now."""
        return dict(self._fresh().properties)

    @property
    def version(self) -> int:
        """The newest version; 0 for a table without any."""
        with self._context.catalog.read() as reader:
            return live_head(reader, self._info).version

    def schema(self, version: int | str | None = None) -> pa.Schema:
        """The schema of the newest or of an earlier version."""
        with self._context.catalog.read() as reader:
            _, schema_id = resolve(reader, self._info, version=version, as_of=None)
            return without_ids(reader.schema(self._table_id, schema_id))

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The versions, newest first: what was done, when, by whom, and what the table held then."""
        with self._context.catalog.read() as reader:
            live_head(reader, self._info)
            return histories.history(reader, self._info, limit=limit)

    def files(self, version: int | str | None = None) -> pa.Table:
        """The data files of a version, as an Arrow table; a path that begins with / is of an imported file."""
        with self._context.catalog.read() as reader:
            number, _ = resolve(reader, self._info, version=version, as_of=None)
            return histories.files(reader, self._info, number)

    def row_groups(self, version: int | str | None = None) -> pa.Table:
        """The row groups of a version with the bounds and NULL counts of each column, as an Arrow table."""
        with self._context.catalog.read() as reader:
            number, schema_id = resolve(reader, self._info, version=version, as_of=None)
            schema = reader.schema(self._table_id, schema_id)
            return histories.row_groups(reader, self._info, number, schema)

    def export(
        self, format: str, path: Any = None, *, version: int | str | None = None, tag: bool = True
    ) -> ExportResult:
        """Describes a version as a Delta or Iceberg table over the same data files, for other engines to read.

        No data is copied, and none is opened: columns, partitions and statistics come from the catalog. What is
        written there by others is never read back: export again after a change. A repeat adds to the Delta log what
        changed since, or a snapshot to Iceberg's metadata; if nothing changed, nothing is written.

        Args:
            format: `"delta"` or `"iceberg"` (with `parqlake[iceberg]`).
            path: the folder below the lake's root that becomes the other format's table; the table's own if left out.
                Delta only names files below it, so that a table with imported files needs a folder that holds them.
            version: a version number or the name of a tag; the newest if left out.
            tag: moves the tag `exported-delta` or `exported-iceberg` to the version, so that vacuum keeps its files.

        Raises:
            UnsupportedTypeError: the format has no type for a column; it is named, and nothing was written.
            InvalidOptionError: files were written before a change of the schema that the format does not follow.
            AlreadyExistsError: there is another table in the folder.

        Example:
            >>> orders.export("delta").url              # doctest: +SKIP
            '/data/warehouse/sales/orders-0199…'
            >>> orders.export("iceberg").metadata       # doctest: +SKIP
            'sales/orders-0199…/metadata/v1.metadata.json'
        """
        from parqlake.table import exporting

        return exporting.export(self._context, self._info, format, path, version=version, tag=tag)

    # -------------------------------------------------------------------------------------------- tags, properties

    def tag(self, name: str, version: int | str | None = None) -> None:
        """Names a version (the newest if left out), so that it can be read by name and is kept.

        Naming another version later moves the tag.
        """
        check_tag_name(name)
        with self._context.catalog.write() as writer:
            number, _ = resolve(writer, self._info, version=version, as_of=None)
            if number == 0:
                raise VersionNotFoundError(f"{self._info.name} has no version to tag yet; write to it first")
            writer.set_tag(Tag(self._table_id, name, number, now()))

    def untag(self, name: str) -> None:
        """Takes a tag away; the version stays."""
        with self._context.catalog.write() as writer:
            live_head(writer, self._info)
            if not writer.delete_tag(self._table_id, check_tag_name(name)):
                known = ", ".join(tag.name for tag in writer.tags(self._table_id)) or "none"
                raise VersionNotFoundError(f'{self._info.name} has no tag "{name}"; tags: {known}')

    def tags(self) -> dict[str, int]:
        """The tags and their versions."""
        with self._context.catalog.read() as reader:
            live_head(reader, self._info)
            return {tag.name: tag.version for tag in reader.tags(self._table_id)}

    def set_properties(self, properties: Mapping[str, Any]) -> None:
        """Replaces the table's properties; those named like write options are the defaults of its writes."""
        checked = check_properties(properties)
        with self._context.catalog.write() as writer:
            live_head(writer, self._info)
            writer.set_properties(self._table_id, checked)

    def __repr__(self) -> str:
        return f"<Table {self._info.name}>"

    # -------------------------------------------------------------------------------------------- inside

    def _fresh(self) -> TableInfo:
        with self._context.catalog.read() as reader:
            live_head(reader, self._info)
            return reader.table_by_id(self._table_id) or self._info
