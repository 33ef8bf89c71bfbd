"""The libraries that `reads.py` compares: each makes or opens a table of the same files, and answers queries."""

# Nothing but the standard library is imported here: the children are timed from their start.
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

Wanted = tuple[int, int] | None
"""First and last id; None for all rows, a point if they are the same."""


def sql(source: str, wanted: Wanted, columns: tuple[str, ...] | None) -> str:
    """The query as text."""
    where = "" if wanted is None else f" WHERE id >= {wanted[0]} AND id <= {wanted[1]}"
    return f"SELECT {', '.join(columns) if columns else '*'} FROM {source}{where}"


class Side:
    """One way to read the table below a folder; `make` registers the files once, and is not timed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "files"

    def make(self) -> None:
        """Registers the files."""

    def open(self) -> None:
        """Opens the table."""

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """The rows, as an Arrow table."""
        raise NotImplementedError


class Parqlake(Side):
    """Ours."""

    def make(self) -> None:
        """Imports the files where they are."""
        import parqlake

        with parqlake.connect(self.folder) as lake:
            lake.import_parquet("bench.orders", str(self.files))

    def open(self) -> None:
        """The lake and its table."""
        import parqlake

        self.table = parqlake.connect(self.folder, create=False).table("bench.orders")

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """A scan."""
        return self.scan(wanted, columns).to_arrow()

    def scan(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """By tuples, the shortest spelling."""
        where = None if wanted is None else [("id", ">=", wanted[0]), ("id", "<=", wanted[1])]
        if wanted is not None and wanted[0] == wanted[1]:
            where = [("id", "=", wanted[0])]
        return self.table.scan(where, columns=columns)


class ParqlakeDuckDB(Parqlake):
    """Ours, read by DuckDB."""

    def make(self) -> None:
        """Parqlake has made it."""

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """DuckDB's own reader over the files that are left."""
        import duckdb

        relation = self.scan(wanted, columns).to_duckdb(duckdb.connect())
        return relation.to_arrow_table()


class PyArrowDirectory(Side):
    """A dataset of the folder."""

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """Arrow filters by the footers' statistics."""
        import pyarrow.dataset as ds

        id_ = ds.field("id")
        condition = None if wanted is None else (id_ >= wanted[0]) & (id_ <= wanted[1])
        return ds.dataset(self.files, format="parquet").to_table(
            columns=None if columns is None else list(columns), filter=condition
        )


class DuckDBDirectory(Side):
    """`read_parquet` of the folder."""

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """DuckDB filters by the footers' statistics."""
        import duckdb

        return (
            duckdb.connect().execute(sql(f"read_parquet('{self.files}/*.parquet')", wanted, columns)).to_arrow_table()
        )


class PolarsDirectory(Side):
    """`scan_parquet` of the folder."""

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """Polars filters by the footers' statistics."""
        import polars as pl

        frame = pl.scan_parquet(f"{self.files}/*.parquet")
        if wanted is not None:
            frame = frame.filter(pl.col("id").is_between(*wanted))
        return (frame if columns is None else frame.select(columns)).collect().to_arrow()


class Deltalake(Side):
    """delta-rs, over a log of its own beside links to the files."""

    def make(self) -> None:
        """Converts a folder of links."""
        from deltalake import convert_to_deltalake

        copy = self.folder / "delta"
        copy.mkdir()
        for path in self.files.iterdir():
            os.link(path, copy / path.name)
        convert_to_deltalake(str(copy))

    def open(self) -> None:
        """The newest version."""
        from deltalake import DeltaTable

        self.table = DeltaTable(str(self.folder / "delta"))

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """By its own query engine, which prunes by the log's statistics."""
        import pyarrow as pa
        from deltalake import QueryBuilder

        found = QueryBuilder().register("orders", self.table).execute(sql("orders", wanted, columns)).read_all()
        return pa.table(found)


class DuckLake(Side):
    """DuckDB's lake, with its catalog in SQLite."""

    def make(self) -> None:
        """Adds the files as they are."""
        self.open()
        first = next(self.files.iterdir())
        run = self.connection.execute
        run(f"CREATE TABLE lake.orders AS SELECT * FROM read_parquet('{first}') LIMIT 0")
        run(f"CALL ducklake_add_data_files('lake', 'orders', '{self.files}/*.parquet')")

    def open(self) -> None:
        """A connection with the extensions."""
        import duckdb
        import duckdb_extension_ducklake
        import duckdb_extension_sqlite_scanner

        self.connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for package in (duckdb_extension_sqlite_scanner, duckdb_extension_ducklake):
            found = next(Path(next(iter(package.__path__))).rglob("*.duckdb_extension"))
            self.connection.execute(f"LOAD '{found}'")
        place = self.folder
        self.connection.execute(f"ATTACH 'ducklake:sqlite:{place}/meta.db' AS lake (DATA_PATH '{place}/ducklake/')")

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """In SQL."""
        return self.connection.execute(sql("lake.orders", wanted, columns)).to_arrow_table()


class Pyiceberg(Side):
    """pyiceberg with its SQL catalog in SQLite."""

    def make(self) -> None:
        """Adds the files as they are."""
        import pyarrow.parquet as pq

        (self.folder / "iceberg").mkdir()
        catalog = self.catalog()
        catalog.create_namespace("bench")
        paths = sorted(str(path) for path in self.files.iterdir())
        table = catalog.create_table("bench.orders", schema=pq.read_schema(paths[0]))
        table.add_files(paths, check_duplicate_files=False)

    def catalog(self) -> Any:
        """Both in one folder."""
        from pyiceberg.catalog.sql import SqlCatalog

        place = self.folder / "iceberg"
        return SqlCatalog("bench", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")

    def open(self) -> None:
        """The newest version."""
        self.table = self.catalog().load_table("bench.orders")

    def read(self, wanted: Wanted, columns: tuple[str, ...] | None) -> Any:
        """A scan."""
        options: dict[str, Any] = {} if columns is None else {"selected_fields": columns}
        if wanted is not None:
            options["row_filter"] = f"id >= {wanted[0]} and id <= {wanted[1]}"
        return self.table.scan(**options).to_arrow()


SIDES: dict[str, type[Side]] = {
    "parqlake": Parqlake,
    "parqlake, DuckDB": ParqlakeDuckDB,
    "PyArrow, directory": PyArrowDirectory,
    "DuckDB, directory": DuckDBDirectory,
    "Polars, directory": PolarsDirectory,
    "deltalake": Deltalake,
    "DuckLake": DuckLake,
    "pyiceberg": Pyiceberg,
}
