"""A store with files to rewrite, and short words for what the tests of rewriting and clustering ask of it."""

from __future__ import annotations

import itertools
import json
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake.core.maintenance import FileInfo
from parqlake.engines.arrow import clustering as arrow_clustering
from parqlake.engines.arrow import rewriting as arrow_rewriting
from parqlake.engines.duck import clustering as duck_clustering
from parqlake.engines.duck import rewriting as duck_rewriting
from parqlake.stores import FsspecStore, open_store

REWRITERS: dict[str, Callable[..., list[FileInfo]]] = {
    "pyarrow": arrow_rewriting.rewrite_files,
    "duckdb": duck_rewriting.rewrite_files,
}
CLUSTERERS: dict[str, Callable[..., list[FileInfo]]] = {
    "pyarrow": arrow_clustering.cluster_files,
    "duckdb": duck_clustering.cluster_with_duckdb,  # with little memory too, when `cluster_files` leaves it to PyArrow
}
ENGINES = sorted(CLUSTERERS)
MEGABYTE = 1024 * 1024


@dataclass
class Place:
    """A store, the files in it, and names for new ones."""

    store: FsspecStore
    sources: list[str] = field(default_factory=list)
    names: Any = field(default_factory=itertools.count)

    @classmethod
    def at(cls, url: str | None = None) -> Place:
        """A place in memory, or in a folder."""
        store = open_store(url or f"memory://place-{uuid.uuid4()}")
        store.prepare_root()
        return cls(store)

    def add(self, table: pa.Table, **options: Any) -> str:
        """Writes a source file."""
        path = f"data/source-{len(self.sources)}.parquet"
        self.store.make_folders(["data"])
        with self.store.arrow_filesystem().open_output_stream(self.store.full_path(path)) as sink:
            pq.write_table(table, sink, **options)
        self.sources.append(path)
        return path

    def new_path(self) -> str:
        """A name that no reader picks up."""
        return f"data/p=1/new-{next(self.names)}.tmp"

    def rewrite(self, engine: str, schema: pa.Schema, rows: Sequence[int] | None = None, **options: Any) -> Any:
        options = {"compression": "snappy"} | options
        new_path = options.pop("new_path", self.new_path)
        return REWRITERS[engine](self.store, self.sources, new_path, schema=schema, rows=rows, **options)

    def cluster(
        self, engine: str, schema: pa.Schema, columns: Sequence[str], rows: Sequence[int], **options: Any
    ) -> Any:
        options = {"compression": "snappy"} | options
        new_path = options.pop("new_path", self.new_path)
        return CLUSTERERS[engine](
            self.store, self.sources, new_path, columns=columns, schema=schema, rows=rows, **options
        )

    def read(self, path: str) -> pa.Table:
        """A file's rows, checksums verified."""
        full = self.store.full_path(path)
        with pq.ParquetFile(full, filesystem=self.store.arrow_filesystem(), page_checksum_verification=True) as parquet:
            return parquet.read()

    def footer(self, path: str) -> Any:
        return pq.read_metadata(self.store.full_path(path), filesystem=self.store.arrow_filesystem())

    def stored(self) -> set[str]:
        return {file.path for file in self.store.list_files("data")}

    def spoil(self, path: str, change: Callable[[bytearray], bytes | bytearray]) -> None:
        """Damages a file."""
        self.store.write_bytes(path, bytes(change(bytearray(self.store.read_bytes(path)))))


def multiset(tables: Sequence[pa.Table]) -> Counter[str]:
    """Rows without their order; NaN equals NaN, and zero differs from its negative."""
    return Counter(
        json.dumps(list(row.values()), default=repr)
        for table in tables
        for row in table.to_pylist(maps_as_pydicts=None)
    )


def even_rows(total: int, files: int) -> list[int]:
    short, longer = divmod(total, files)
    return [short + 1] * longer + [short] * (files - longer)


def test_a_multiset_tells_rows_apart() -> None:
    one, other = pa.table({"a": [1.0, float("nan")]}), pa.table({"a": [float("nan"), 1.0]})
    assert multiset([one]) == multiset([other])
    for wrong in ([1.0, 1.0], [0.0, float("nan")], [1.0], [None, 1.0]):
        assert multiset([one]) != multiset([pa.table({"a": pa.array(wrong, pa.float64())})])
    assert multiset([pa.table({"a": [0.0]})]) != multiset([pa.table({"a": [-0.0]})])


@pytest.mark.parametrize(("total", "files"), [(10, 3), (3, 3), (0, 1)])
def test_even_rows_make_up_the_total(total: int, files: int) -> None:
    rows = even_rows(total, files)
    assert sum(rows) == total
    assert len(rows) == files
    assert max(rows) - min(rows) <= 1
