"""Lake: a catalog plus a root on a store; makes, finds, names and drops tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from parqlake.core.errors import InvalidOptionError, TableExistsError, TableNotFoundError
from parqlake.core.names import check_namespace, parse_table_name
from parqlake.table.context import EngineChoice, LakeContext, now
from parqlake.table.keeping import LakeKeeping
from parqlake.table.lake_reading import LakeReading, found
from parqlake.table.options import WriteOptions
from parqlake.table.records import LakeRecords
from parqlake.table.result import WriteResult
from parqlake.table.runs import LakeRuns
from parqlake.table.table import Table
from parqlake.table.writes import check_key

if TYPE_CHECKING:
    from parqlake.table.importing import ImportResult
    from parqlake.table.transaction import Transaction


class Lake(LakeKeeping, LakeReading, LakeRecords, LakeRuns):
    """Tables over one catalog and one store. Made by `parqlake.connect`; a context manager.

    Safe to use from many threads; each process connects for itself.
    """

    def __init__(self, context: LakeContext) -> None:
        """Made by `parqlake.connect`."""
        self._context = context

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] | None = None,
        cluster_by: Sequence[str] | None = None,
        properties: Mapping[str, Any] | None = None,
        checks: Mapping[str, str] | None = None,
        if_exists: str = "error",
    ) -> Table:
        """Creates an empty table.

        Args:
            name: `namespace.name`.
            schema: a `pyarrow.Schema`, or data to take the schema from.
            partition_by: columns by whose values rows are laid into folders; few distinct values serve best.
            sort_by: columns that rows are sorted by inside each row group.
            cluster_by: columns that `Table.optimize` lays rows out by; kept as the property `cluster_by`.
            properties: free text, and defaults for writes (`compression`, `target_mb_per_file`, …).
            checks: conditions that every row has to meet, by name: `{"positive": "amount >= 0"}`.
            if_exists: `"error"`, or `"ignore"` to return the table that is there.

        Raises:
            TableExistsError: the name is taken.
            InvalidNameError: the name, or a column's name, cannot be used.
            UnsupportedTypeError: a column's type cannot be stored.

        Example:
            >>> lake.create_table("sales.orders", frame, partition_by=["region"])   # doctest: +SKIP
        """
        from parqlake.table.creation import described

        parsed = parse_table_name(name)
        if if_exists not in ("error", "ignore"):
            raise InvalidOptionError(f'if_exists={if_exists!r} is unknown; use "error" or "ignore"')
        creation = described(
            self._context,
            parsed,
            schema,
            partition_by=partition_by,
            sort_by=sort_by,
            cluster_by=cluster_by,
            properties=properties,
            checks=checks,
        )
        try:
            with self._context.catalog.write() as writer:
                info = creation.make(writer)
        except TableExistsError:
            if if_exists == "error":
                raise
            return self.table(name)
        return Table(self._context, info.table_id)

    def table(self, name: str) -> Table:
        """The table of that name; `TableNotFoundError`, with the closest name, if there is none."""
        with self._context.catalog.read() as reader:
            return Table(self._context, found(reader, parse_table_name(name)).table_id)

    def tables(self, namespace: str | None = None) -> list[str]:
        """The names of all tables, or of those in one namespace, sorted."""
        if namespace is not None:
            check_namespace(namespace)
        with self._context.catalog.read() as reader:
            return sorted(str(info.name) for info in reader.tables(namespace))

    def drop_table(self, name: str, *, if_missing: str = "error") -> None:
        """Takes the table out of sight; its files stay until vacuum, and `undrop_table` brings it back."""
        if if_missing not in ("error", "ignore"):
            raise InvalidOptionError(f'if_missing={if_missing!r} is unknown; use "error" or "ignore"')
        parsed = parse_table_name(name)
        with self._context.catalog.write() as writer:
            if if_missing == "ignore" and writer.table(parsed) is None:
                return
            info = found(writer, parsed)
            writer.lock([info.table_id])
            writer.drop_table(info.table_id, now())

    def undrop_table(self, name: str, *, rename_to: str | None = None) -> Table:
        """Brings the table back that was dropped last under this name, under the same name or another."""
        parsed = parse_table_name(name)
        target = parsed if rename_to is None else parse_table_name(rename_to)
        with self._context.catalog.write() as writer:
            dropped = writer.dropped_tables(parsed)
            if not dropped:
                raise TableNotFoundError(
                    f'no dropped table "{parsed}"; a table can be brought back from when it was dropped until a '
                    "vacuum of the lake deletes it"
                )
            writer.undrop_table(dropped[0].table_id, target)
        return Table(self._context, dropped[0].table_id)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Changes a table's name; its files stay where they are."""
        parsed, target = parse_table_name(name), parse_table_name(new_name)
        with self._context.catalog.write() as writer:
            info = found(writer, parsed)
            if parsed != target:
                writer.rename_table(info.table_id, target)
        return Table(self._context, info.table_id)

    def write(
        self,
        data: Any,
        name: str,
        *,
        mode: str = "append",
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] | None = None,
        properties: Mapping[str, Any] | None = None,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> WriteResult | None:
        """Writes rows to a table by its name, and creates the table if it is not there.

        Args:
            data: a Spark data frame, or anything else that `Table.append` takes.
            name: `namespace.name`.
            mode: `"append"`, `"overwrite"` (all rows), `"error"` (the table must not be there yet) or `"ignore"` (does
                nothing, and returns None, if the table is there).
            partition_by: for a new table; for one that is there it must be what the table has.
            sort_by: as `partition_by`.
            properties: for a new table.
            engine: see `Table.append`, as for what follows.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            options: see `Table.append`.

        Raises:
            TableExistsError: the table is there, and the mode is `"error"`.

        Example:
            >>> lake.write(frame, "sales.orders", mode="overwrite", partition_by=["region"])   # doctest: +SKIP
        """
        layout = {"partition_by": partition_by, "sort_by": sort_by, "properties": properties}
        from parqlake.table import lake_write

        return lake_write.write(
            self,
            self._context,
            data,
            name,
            mode=mode,
            layout=layout,
            engine=engine,
            message=message,
            idempotency_key=idempotency_key,
            options=options,
        )

    def import_parquet(
        self,
        name: str,
        source: Any,
        *,
        partition_by: Sequence[str] | None = None,
        schema: Any = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ImportResult:
        """Makes a table of Parquet files that are there, in one commit. The files stay where and as they are.

        Only footers are read: rows, columns and statistics come from them. Files may lack columns, which are NULL
        then, and may have narrower types; folders named `region=eu` become partition columns. The files remain
        their owner's: later versions may leave them behind, but no vacuum deletes them. They must not be changed
        any more; `check` finds those that were.

        Args:
            name: `namespace.name` of the new table.
            source: a folder, a glob, a file, or a list of these, below the lake's root: a path or URL, or relative to
                the root. Hidden files, `_SUCCESS` and `_metadata` are ignored.
            partition_by: which columns of folders to take, in this order; all if left out, none if empty.
            schema: the table's columns and types, partition columns included; worked out from the files if left out.
            dry_run: says what would be made, and writes nothing.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.

        Raises:
            TableExistsError: the name is taken.
            FileNotInStoreError: there are no such files.
            UnsafePathError: the files do not lie below the root.
            DataCorruptionError: a file is empty, damaged or no Parquet; it is named, and nothing was imported.
            SchemaMismatchError: the files do not make one table.

        Example:
            >>> lake.import_parquet("sales.old", "landing/orders").row_count   # doctest: +SKIP
            48000
        """
        from parqlake.table import importing

        return importing.import_parquet(
            self._context,
            name,
            source,
            partition_by=partition_by,
            schema=schema,
            dry_run=dry_run,
            message=message,
            idempotency_key=idempotency_key,
        )

    def register(self, spark: Any = None, *, namespace: str | None = None) -> list[str]:
        """Makes every table a temporary view of a Spark session, `sales.orders` as `sales_orders`.

        A view shows the version that is the newest now; register again to see later ones. It is read by Spark's own
        reader from the exact list of files.

        Args:
            spark: the session; the active one, or one made by `parqlake.spark.session`, if left out.
            namespace: only the tables of this namespace.

        Returns:
            The names of the views.

        Raises:
            InvalidOptionError: two tables would have the same view; register by namespace.
            UnsupportedTypeError: a column is of a type that Spark cannot hold.

        Example:
            >>> lake.register(spark)                                        # doctest: +SKIP
            >>> spark.sql("select count(*) from sales_orders").show()       # doctest: +SKIP
        """
        views: dict[str, str] = {}
        for name in self.tables(namespace):
            view = name.replace(".", "_")
            if view in views:
                raise InvalidOptionError(
                    f"tables {views[view]} and {name} would both be the view {view}; register one namespace only, "
                    f'for instance lake.register(spark, namespace="{name.rpartition(".")[0]}")'
                )
            views[view] = name
        frames = {view: self.table(name).scan().to_spark(spark) for view, name in views.items()}
        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        return list(frames)

    def transaction(self, *, message: str | None = None, idempotency_key: str | None = None) -> Transaction:
        """Begins a transaction over any number of tables: all changes become visible together, or none.

        Args:
            message: shown in the history of each table.
            idempotency_key: a block that was committed with this key before does nothing.

        Example:
            >>> with lake.transaction(idempotency_key="job-7/batch-12") as tx:   # doctest: +SKIP
            ...     tx.table("sales.orders").append(orders)
            ...     tx.table("sales.lines").append(lines)
        """
        check_key(idempotency_key)
        from parqlake.table.transaction import Transaction

        return Transaction(self._context, message=message, idempotency_key=idempotency_key)

    @property
    def context(self) -> LakeContext:
        """The lake's catalog, store and engines, for those who build on them."""
        return self._context

    @property
    def url(self) -> str:
        """The root, without secrets."""
        return self._context.store.url

    @property
    def catalog_url(self) -> str:
        """Where the catalog is, without secrets."""
        return self._context.catalog.url

    def close(self) -> None:
        """Closes the catalog's connections. Closing twice is no error."""
        self._context.catalog.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lake {self.url}, catalog {self.catalog_url}>"
