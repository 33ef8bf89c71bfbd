"""Rewrites that cannot be done: a clear error, and no file left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_rewriting_place import ENGINES, Place

from parqlake.core.errors import (
    DataCorruptionError,
    FileNotInStoreError,
    InvalidOptionError,
    SchemaMismatchError,
    TypeMismatchError,
    UnsafePathError,
)

TABLE = pa.table({"id": range(1000), "name": [f"n{i}" for i in range(1000)]})
WAYS = ["rewrite", "cluster by one", "cluster by two"]


def filled(url: str | None = None) -> Place:
    place = Place.at(url)
    for start in range(0, 1000, 250):
        place.add(TABLE.slice(start, 250), row_group_size=100, compression="none", write_page_checksum=True)
    return place


def run(place: Place, engine: str, way: str, **options: Any) -> Any:
    options = {"schema": TABLE.schema, "rows": [400, 400, 200]} | options
    if way == "rewrite":
        return place.rewrite(engine, **options)
    return place.cluster(engine, columns=["id"] if way == "cluster by one" else ["name", "id"], **options)


def flip_late(content: bytearray) -> bytearray:
    """One bit of a value in the last row group."""
    content[content.index(b"n748")] ^= 1
    return content


DAMAGES: dict[str, Callable[[bytearray], bytes | bytearray]] = {
    "cut short": lambda content: content[:-20],
    "empty": lambda _: b"",
    "no Parquet at all": lambda _: b"a,b\n1,2\n" * 100,
    "pages overwritten": lambda content: content[:4] + b"\xff" * 3000 + content[3004:],
    "one bit": flip_late,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("url", ["memory", "local"])
def test_a_damaged_source_stops_everything(url: str, engine: str, way: str, damage: str, tmp_path: Path) -> None:
    place = filled(str(tmp_path / "lake") if url == "local" else None)
    place.spoil(place.sources[2], DAMAGES[damage])
    before = place.stored()
    with pytest.raises(DataCorruptionError, match=r"source-2\.parquet"):
        run(place, engine, way)
    assert place.stored() == before


def test_duckdb_alone_would_not_have_seen_the_damage(tmp_path: Path) -> None:
    """Why PyArrow reads for both engines."""
    import duckdb

    place = filled(str(tmp_path / "lake"))
    place.spoil(place.sources[2], flip_late)
    path = place.store.full_path(place.sources[2])
    with duckdb.connect() as connection:
        ((count,),) = connection.execute("SELECT count(DISTINCT name) FROM read_parquet(?)", [path]).fetchall()
    assert count == 250


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_source_is_named(engine: str, way: str) -> None:
    place = filled()
    place.store.delete([place.sources[1]])
    with pytest.raises(FileNotInStoreError, match=r"source-1\.parquet"):
        run(place, engine, way)
    assert place.stored() == set(place.sources) - {place.sources[1]}


NAMES = [f"n{i}" for i in range(10)]
MISFITS: dict[str, tuple[pa.Table, type[Exception], str]] = {
    "missing column": (pa.table({"id": range(10)}), SchemaMismatchError, '"name"'),
    "extra column": (pa.table({"id": range(10), "name": NAMES, "more": NAMES}), SchemaMismatchError, '"more"'),
    "narrower": (pa.table({"id": pa.array(range(10), pa.int32()), "name": NAMES}), TypeMismatchError, "int32"),
    "other type": (pa.table({"id": range(10), "name": range(10)}), TypeMismatchError, '"name"'),
    "twice": (pa.table([NAMES, NAMES, range(10)], names=["name", "name", "id"]), SchemaMismatchError, "twice"),
}


@pytest.mark.parametrize("misfit", MISFITS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_of_another_schema_is_refused(engine: str, way: str, misfit: str) -> None:
    place = filled()
    table, error, text = MISFITS[misfit]
    place.add(table)
    before = place.stored()
    with pytest.raises(error, match=text) as caught:
        run(place, engine, way, rows=[1010])
    assert "source-4.parquet" in str(caught.value)
    assert place.stored() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_null_where_the_schema_allows_none_is_refused(engine: str, way: str) -> None:
    place = filled()
    place.add(pa.table({"id": [1, 2], "name": ["a", None]}))
    before = place.stored()
    schema = pa.schema([("id", pa.int64()), pa.field("name", pa.string(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match=r'"name" of ".*source-4.parquet" holds NULLs'):
        run(place, engine, way, schema=schema, rows=[500, 502])
    assert place.stored() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_in_the_middle_leaves_no_file(engine: str, way: str) -> None:
    place = filled()
    names = iter(["data/x-1.tmp", "data/x-2.tmp"])

    def new_path() -> str:
        return next(names)

    with pytest.raises(StopIteration):
        run(place, engine, way, new_path=new_path)
    assert place.stored() == set(place.sources)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_new_files_never_replace_others_of_the_call(engine: str, way: str) -> None:
    place = filled()
    for path in (place.sources[3], "data/same.tmp"):
        with pytest.raises(InvalidOptionError, match=path):
            run(place, engine, way, new_path=lambda path=path: path)
        assert place.stored() == set(place.sources)
    with pytest.raises(UnsafePathError):
        run(place, engine, way, new_path=lambda: "../outside.tmp")
    assert pa.concat_tables(map(place.read, place.sources)).equals(TABLE)


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"rows": [400, 400]}, "800 rows in 2 files, but the sources hold 1000"),
    ({"rows": [1100]}, "1100"),
    ({"rows": [1100, -100]}, "-100"),
    ({"compression": "zip"}, "'zip' is not known"),
    ({"memory_bytes": 0}, "memory_bytes is 0"),
    ({"schema": pa.schema([])}, "no column"),
    ({"schema": pa.schema([("id", pa.int64()), ("id", pa.int64()), ("name", pa.string())])}, '"id" twice'),
]


@pytest.mark.parametrize(("options", "text"), OPTIONS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_options_that_make_no_sense_are_refused(engine: str, way: str, options: dict[str, Any], text: str) -> None:
    place = filled()
    with pytest.raises(InvalidOptionError, match=text):
        run(place, engine, way, **options)
    assert place.stored() == set(place.sources)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_given_twice_is_refused(engine: str, way: str) -> None:
    place = filled()
    place.sources.append(place.sources[0])
    with pytest.raises(InvalidOptionError, match=r"source-0.parquet.* twice"):
        run(place, engine, way, rows=[1250])
