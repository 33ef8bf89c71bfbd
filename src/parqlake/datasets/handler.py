"""What the handlers share: plain directories of Parquet, read, written, merged and maintained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import fsspec
import pyarrow as pa

from parqlake.core.errors import InputError
from parqlake.datasets.backends import Backend
from parqlake.datasets.merging import merge_into
from parqlake.datasets.naming import DEFAULT_TEMPLATE, FilenameStrategy, Naming
from parqlake.datasets.operations import compact, optimize
from parqlake.datasets.options import checked_codec, checked_mode, checked_rows
from parqlake.datasets.paths import AnyPath, place_of, place_of_file
from parqlake.datasets.place import Place
from parqlake.datasets.reading import StoredRows
from parqlake.datasets.writing import write_dataset, write_one_file
from parqlake.storage_options import StorageOptions, from_dict


class ParquetHandler:
    """The methods of a handler; who carries them out is for those who descend from it to say.

    Every method that writes does so all or nothing: a failure leaves the old rows or the new ones. What a plain
    directory cannot promise is that a reader in the middle of a change sees one of the two; a table of a lake does.
    """

    _connection: Any
    """What queries run on; None once the handler is closed."""

    def __init__(self, storage_options: StorageOptions | Mapping[str, Any] | None, filesystem: Any) -> None:
        """Finds the file system; a connection is for those who descend from it to make."""
        self._chosen = filesystem is not None or storage_options is not None
        self._filesystem: Any = _filesystem(storage_options, filesystem)

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the use of the handler; closing twice is no error."""
        self._connection = None

    def read_parquet(self, path: AnyPath, columns: Sequence[str] | None = None) -> pa.Table:
        """Reads a file, or all files of a directory and its folders, into one table.

        Columns have the types that they were written with. Hive partitions (`date=2025-11-04/…`) become columns: of
        type int64 if all values are whole numbers, else string, unless the files hold the column themselves.

        Args:
            path: a file or a directory.
            columns: names of the columns to read; all if None.

        Returns:
            The rows, file by file in the order of their paths.

        Raises:
            FileNotFoundError: nothing is there, or no Parquet file.
            ColumnNotFoundError: there is no such column; a `ValueError`.

        Example:
            >>> from parqlake.datasets import DuckDBParquetHandler
            >>> handler = DuckDBParquetHandler()
            >>> handler.write_parquet(pa.table({"id": [1], "city": ["Graz"]}), "memory://read.parquet")
            >>> handler.read_parquet("memory://read.parquet", columns=["city"]).to_pylist()
            [{'city': 'Graz'}]
        """
        self._open()
        return StoredRows(path, self._given(path)).table(columns)

    def write_parquet(self, table: pa.Table, path: AnyPath, compression: str = "snappy") -> None:
        """Writes one file, and the folders on the way to it; a file that is there is replaced in one step.

        Args:
            table: the rows: an Arrow table, or whatever `Table.append` takes.
            path: of the file.
            compression: snappy, gzip, lz4, zstd, brotli or none.

        Example:
            >>> from parqlake.datasets import DuckDBParquetHandler
            >>> handler = DuckDBParquetHandler()
            >>> handler.write_parquet(pa.table({"id": [1]}), "memory://a/b/c.parquet", compression="zstd")
        """
        self._open()
        codec = checked_codec(compression)
        place, name = place_of_file(path, self._given(path))
        self._write_file(place, name, table, codec)

    def write_parquet_dataset(  # noqa: PLR0917
        self,
        table: pa.Table,
        path: AnyPath,
        mode: str = "append",
        max_rows_per_file: int | None = None,
        compression: str = "snappy",
        basename_template: str = DEFAULT_TEMPLATE,
        *,
        filename_strategy: FilenameStrategy | str | None = None,
    ) -> None:
        """Writes rows to a directory, under names that no other file has.

        Args:
            table: the rows. A table without rows makes one file, which holds the columns.
            path: the directory; made if it is not there.
            mode: "append" leaves the files that are there; "overwrite" replaces all Parquet files, those of folders
                inside too, and leaves other files.
            max_rows_per_file: cut the rows into files of so many; None makes one file.
            compression: snappy, gzip, lz4, zstd, brotli or none.
            basename_template: file name with `{}` for the identifier.
            filename_strategy: what takes the place of `{}`: "uuid", "timestamp" or "sequential". By default UUIDs
                for the default template, and for any other numbers that go on after the highest one there is.

        Raises:
            ValueError: a wrong mode, bound, codec, template or strategy.
            NotADirectoryError: the path is a file.
            PermissionError: the store refuses to be written to.

        Example:
            >>> from parqlake.datasets import DuckDBParquetHandler
            >>> handler = DuckDBParquetHandler()
            >>> rows = pa.table({"id": range(5)})
            >>> handler.write_parquet_dataset(
            ...     rows, "memory://numbered", max_rows_per_file=2, basename_template="data_{}.parquet"
            ... )
            >>> [path.rpartition("/")[2] for path in fsspec.filesystem("memory").ls("/numbered", detail=False)]
            ['data_000.parquet', 'data_001.parquet', 'data_002.parquet']
        """
        self._open()
        overwrite = checked_mode(mode) == "overwrite"
        most, codec = checked_rows(max_rows_per_file), checked_codec(compression)
        naming = Naming(basename_template, filename_strategy)
        self._write_dataset(self._place(path), table, overwrite=overwrite, max_rows=most, codec=codec, naming=naming)

    def merge_parquet_dataset(  # noqa: PLR0917
        self,
        source: Any,
        target_path: AnyPath,
        key_columns: Sequence[str] | str,
        strategy: str = "upsert",
        dedup_order_by: Sequence[str] | str | None = None,
        compression: str = "snappy",
        *,
        memory_limit: int | str | None = None,
    ) -> dict[str, int]:
        """Merges rows into a directory by key; files without a match stay as they are.

        | strategy | source row with a match | source row without | target row without |
        | --- | --- | --- | --- |
        | upsert | replaces it | is added | stays |
        | insert | is ignored | is added | stays |
        | update | replaces it | is ignored | stays |
        | full_merge | replaces it | is added | is deleted |
        | deduplicate | replaces it | is added | stays |

        Deduplicate first chooses one source row of each key: the last, or the highest by `dedup_order_by`. The others
        take the last one too, and warn.

        For instance `handler.merge_parquet_dataset(changes, "orders", ["id"], strategy="insert")` adds orders that are
        new and leaves those that are known; `strategy="full_merge"` makes the directory hold what the source holds.

        Args:
            source: an Arrow table or reader, whatever else `Table.append` takes, or a path of a file or directory.
            target_path: the directory. If it holds nothing, all strategies but update create it.
            key_columns: columns that together tell rows apart; no NULLs on either side.
            strategy: see above.
            dedup_order_by: columns by which the highest of several source rows with one key is taken.
            compression: codec of the files that are written.
            memory_limit: how much to hold in memory, in bytes or as "512MB"; more goes to disk.

        Returns:
            `inserted`, `updated`, `deleted`, and `total`, the rows afterwards.

        Raises:
            ValueError: a wrong strategy, a key column that is missing or holds NULLs, columns that differ.
            TypeError: columns whose types differ.

        Example:
            >>> from parqlake.datasets import DuckDBParquetHandler
            >>> handler = DuckDBParquetHandler()
            >>> handler.write_parquet_dataset(pa.table({"id": [1, 2], "x": ["a", "b"]}), "memory://merged")
            >>> handler.merge_parquet_dataset(pa.table({"id": [2, 3], "x": ["B", "C"]}), "memory://merged", ["id"])
            {'inserted': 1, 'updated': 1, 'deleted': 0, 'total': 3}
        """
        self._open()
        return merge_into(
            self._place(target_path),
            self._source(source),
            self._backend(),
            key_columns=key_columns,
            strategy=strategy,
            dedup_order_by=dedup_order_by,
            compression=compression,
            filesystem=self._filesystem if self._chosen else None,
            memory_limit=memory_limit,
            stacklevel=2,
        )

    def compact_parquet_dataset(  # noqa: PLR0917
        self,
        path: AnyPath,
        target_mb_per_file: float | None = None,
        target_rows_per_file: int | None = None,
        partition_filter: str | Sequence[str] | None = None,
        compression: str | None = None,
        dry_run: bool = False,
        *,
        memory_limit: int | str | None = None,
    ) -> dict[str, Any]:
        """Puts small files together and splits long ones, folder by folder; the rows stay the same, in order.

        Args:
            path: the directory.
            target_mb_per_file: about how large files shall be, in MiB. This or the next is needed.
            target_rows_per_file: the most rows a file may have.
            partition_filter: only these partitions, as "date=2025-11-04", or several; whole folder names count.
            compression: codec of the files; files of another codec are rewritten. None keeps the usual one.
            dry_run: only plan; the result has `planned_groups`.
            memory_limit: how much to hold in memory, in bytes or as "512MB".

        Returns:
            The canonical statistics; zero `compacted_file_count` if nothing was worth doing.

        Raises:
            ValueError: no target, or one that is not positive.
            FileNotFoundError: no such directory, or no file that the filter takes.

        Example:
            >>> from parqlake.datasets import DuckDBParquetHandler
            >>> handler = DuckDBParquetHandler()
            >>> handler.write_parquet_dataset(pa.table({"id": range(9)}), "memory://small", max_rows_per_file=3)
            >>> handler.compact_parquet_dataset("memory://small", target_rows_per_file=100)["after_file_count"]
            1
        """
        self._open()
        return compact(
            self._place(path),
            self._backend(),
            target_mb_per_file=target_mb_per_file,
            target_rows_per_file=target_rows_per_file,
            partition_filter=partition_filter,
            compression=compression,
            dry_run=dry_run,
            memory_limit=memory_limit,
        )

    def optimize_parquet_dataset(  # noqa: PLR0917
        self,
        path: AnyPath,
        zorder_columns: Sequence[str],
        target_mb_per_file: float | None = None,
        target_rows_per_file: int | None = None,
        partition_filter: str | Sequence[str] | None = None,
        compression: str | None = None,
        dry_run: bool = False,
        *,
        memory_limit: int | str | None = None,
    ) -> dict[str, Any]:
        """Lays rows out so that queries by the columns read few files: along a curve, or sorted if it is one column.

        Args:
            path: the directory.
            zorder_columns: names of columns, those that queries ask for.
            target_mb_per_file: about how large files shall be, in MiB; 128 if no target is given.
            target_rows_per_file: the most rows a file may have.
            partition_filter: only these partitions, as "date=2025-11-04", or several; whole folder names count.
            compression: codec of the files; files of another codec are rewritten. None keeps the usual one.
            dry_run: only plan; the result has `planned_groups`.
            memory_limit: how much to hold in memory, in bytes or as "512MB".

        Returns:
            The canonical statistics with `zorder_columns`; zero counts if the rows lie well already.

        Raises:
            ValueError: no or unknown columns, or a target that is not positive.
            FileNotFoundError: no such directory, or no file that the filter takes.

        Example:
            >>> from parqlake.datasets import DuckDBParquetHandler
            >>> handler = DuckDBParquetHandler()
            >>> handler.write_parquet_dataset(pa.table({"id": [3, 1, 2]}), "memory://shuffled")
            >>> handler.optimize_parquet_dataset("memory://shuffled", ["id"])["compacted_file_count"]
            1
            >>> handler.read_parquet("memory://shuffled")["id"].to_pylist()
            [1, 2, 3]
        """
        self._open()
        return optimize(
            self._place(path),
            self._backend(),
            zorder_columns=zorder_columns,
            target_mb_per_file=target_mb_per_file,
            target_rows_per_file=target_rows_per_file,
            partition_filter=partition_filter,
            compression=compression,
            dry_run=dry_run,
            memory_limit=memory_limit,
        )

    def _backend(self) -> Backend:
        """Who carries the plans out."""
        raise NotImplementedError

    def _source(self, source: Any) -> Any:
        """The source of a merge as the backend wants it."""
        return source

    def _write_file(self, place: Place, name: str, rows: Any, codec: str) -> None:
        write_one_file(place, name, rows, codec=codec)

    def _write_dataset(
        self, place: Place, rows: Any, *, overwrite: bool, max_rows: int | None, codec: str, naming: Naming
    ) -> None:
        write_dataset(place, rows, overwrite=overwrite, max_rows=max_rows, codec=codec, naming=naming)

    def _open(self) -> Any:
        if self._connection is None:
            kind = type(self).__name__
            raise InputError(f"this {kind} is closed; make a new one, or use it inside its with block")
        return self._connection

    def _place(self, path: AnyPath) -> Place:
        return place_of(path, self._given(path))

    def _given(self, path: AnyPath) -> Any:  # noqa: ARG002 (others look at it)
        """The file system for a path: the user's. Without one an address finds its own."""
        return self._filesystem if self._chosen else None


def _filesystem(storage_options: StorageOptions | Mapping[str, Any] | None, filesystem: Any) -> Any:
    """The one fsspec file system of a handler."""
    if isinstance(filesystem, fsspec.AbstractFileSystem):
        return filesystem
    if filesystem is not None:
        return Place("/", filesystem).filesystem  # refuses what is none, and wraps PyArrow's
    if storage_options is None:
        return fsspec.filesystem("file")
    options = storage_options if isinstance(storage_options, StorageOptions) else from_dict(storage_options)
    return options.to_filesystem()
