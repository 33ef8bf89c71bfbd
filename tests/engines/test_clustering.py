"""Clustering: all rows, along the curve, in files that do not overlap and are never longer than planned."""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_rewriting_place import CLUSTERERS, ENGINES, MEGABYTE, Place, even_rows, multiset

from parqlake.core.clustering import Curve, Layout, RankModel, current, is_clustered, is_one_run, overlap_depth
from parqlake.core.clustering.order_keys import is_orderable
from parqlake.core.errors import ColumnNotFoundError, InvalidOptionError, UnsupportedTypeError
from parqlake.core.maintenance import has_codec
from parqlake.engines.arrow import cluster_texts

SMALL = 64 * 1024
"""So little memory that everything goes through the disk."""
SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.float64()), ("y", pa.int32()), ("name", pa.string()), ("tags", pa.list_(pa.int8()))]
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of store in turn."""
    return Place.at(str(tmp_path / "lake") if request.param == "local" else None)


def shuffled(count: int, seed: int = 1) -> pa.Table:
    """Rows in no order, with NULLs and NaNs."""
    random = np.random.default_rng(seed)
    x = random.normal(size=count)
    x[random.random(count) < 0.02] = np.nan
    names = pa.array([f"name-{number}" for number in random.integers(0, count // 3, count)])
    return pa.table(
        [
            pa.array(random.permutation(count)),
            pa.array(x, mask=random.random(count) < 0.05),
            pa.array((random.gamma(1, 100, count)).astype(np.int32)),
            names,
            pa.array([[number % 5] * (number % 3) for number in range(count)], pa.list_(pa.int8())),
        ],
        schema=SCHEMA,
    )


def filled(place: Place, table: pa.Table, files: int = 5) -> Place:
    start = 0
    for rows in even_rows(table.num_rows, files):
        place.add(table.slice(start, rows), row_group_size=1000)
        start += rows
    return place


def position(column: pa.ChunkedArray) -> list[tuple[int, Any]]:
    """What a column is sorted by: NULLs last, NaN above all numbers."""
    return [
        (2, 0) if value is None else (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)
        for value in column.to_pylist()
    ]


def layout(place: Place, paths: list[str], columns: list[str]) -> Layout:
    return Layout.from_footers([place.footer(path) for path in paths], columns)


@pytest.mark.parametrize("memory_bytes", [SMALL, 512 * MEGABYTE])
@pytest.mark.parametrize("column", ["id", "x", "y", "name"])
def test_one_column_is_a_plain_sort(place: Place, engine: str, column: str, memory_bytes: int) -> None:
    table = shuffled(6000)
    filled(place, table)
    rows = even_rows(6000, 7)
    made = place.cluster(engine, SCHEMA, [column], rows, memory_bytes=memory_bytes)
    assert [file.num_rows for file in made] == rows
    found = [place.read(file.path) for file in made]
    assert multiset(found) == multiset([table])
    order = position(pa.concat_tables(found)[column])
    assert order == sorted(order)
    assert place.stored() == {*place.sources, *(file.path for file in made)}
    before = overlap_depth(layout(place, place.sources, [column]))
    if column in ("id", "name"):  # others have NaNs, which bounds do not tell, or values that fill several files
        assert before == 5
        assert overlap_depth(layout(place, [file.path for file in made], [column])) == 1


@pytest.mark.parametrize("curve", Curve)
@pytest.mark.parametrize("memory_bytes", [SMALL, 512 * MEGABYTE])
def test_codes_ascend_through_all_files(engine: str, curve: Curve, memory_bytes: int) -> None:
    table = shuffled(1000)
    place = filled(Place.at(), table)
    columns = ["y", "name", "x"]
    made = place.cluster(engine, SCHEMA, columns, [300, 300, 400], curve=curve, memory_bytes=memory_bytes)
    found = [place.read(file.path) for file in made]
    assert [part.num_rows for part in found] == [300, 300, 400]
    assert multiset(found) == multiset([table])
    joined = pa.concat_tables(found)
    codes = RankModel.fit(table, columns).codes(joined, curve)  # so few rows are all in the sample
    keys = list(zip(codes.tolist(), *(position(joined[name]) for name in columns), strict=True))
    assert keys == sorted(keys)
    assert len(set(codes.tolist())) > 500


@pytest.mark.parametrize("memory_bytes", [4 * SMALL, 512 * MEGABYTE])
def test_two_columns_lie_in_far_fewer_files_and_a_repeat_has_nothing_to_do(engine: str, memory_bytes: int) -> None:
    random = np.random.default_rng(5)
    a, b = random.gamma(2, 50, 40_000), random.integers(0, 10**9, 40_000)
    table = pa.table({"a": a, "b": b, "c": [f"{number:x}" for number in b]})
    place = filled(Place.at(), table, files=16)
    columns = ["a", "b"]
    made = place.cluster(engine, table.schema, columns, even_rows(40_000, 16), memory_bytes=memory_bytes)
    paths = [file.path for file in made]
    before, after = layout(place, place.sources, columns), layout(place, paths, columns)
    assert overlap_depth(before) == 16
    assert overlap_depth(after) < 5
    model = RankModel.fit(table, columns)
    assert current(before, model).mean > 0.99
    assert current(after, model).mean < 0.4
    sample = table.take(random.permutation(40_000)[:10_000])
    assert is_clustered(before, sample) is False
    assert is_clustered(after, sample) is True
    footers = [place.footer(path).metadata for path in paths]
    assert is_one_run(footers, columns)
    assert not is_one_run(footers, ["a"])
    assert not is_one_run([place.footer(path).metadata for path in place.sources], columns)
    other = place.cluster(engine, table.schema, columns, even_rows(40_000, 16), compression="zstd")
    assert not is_one_run([*footers[:8], *(place.footer(file.path).metadata for file in other[:8])], columns)
    assert all(has_codec(place.footer(file.path), "zstd") for file in other)


def test_both_engines_make_the_same_files() -> None:
    table = shuffled(5000)
    made = {}
    for engine in ENGINES:
        place = filled(Place.at(), table)
        files = place.cluster(engine, SCHEMA, ["x", "id"], even_rows(5000, 6), memory_bytes=SMALL)
        made[engine] = [place.read(file.path) for file in files]
    for one, other in zip(made["pyarrow"], made["duckdb"], strict=True):
        assert str(one.to_pylist()) == str(other.to_pylist())


@pytest.mark.parametrize("memory_bytes", [SMALL, 512 * MEGABYTE])
def test_equal_rows_are_split_and_no_file_is_too_long(engine: str, memory_bytes: int) -> None:
    table = pa.table({"k": [7] * 9000 + [3] * 500 + [None] * 500, "v": range(10_000)})
    table = table.take(np.random.default_rng(2).permutation(10_000))
    place = filled(Place.at(), table)
    for columns in (["k"], ["k", "k2"]):
        if len(columns) == 2:
            table = table.append_column("k2", pa.array([1.5] * 10_000))
            place = filled(Place.at(), table)
        made = place.cluster(engine, table.schema, columns, even_rows(10_000, 9), memory_bytes=memory_bytes)
        found = [place.read(file.path) for file in made]
        assert max(part.num_rows for part in found) == 1112
        assert multiset(found) == multiset([table])
        assert pa.concat_tables(found)["k"].to_pylist() == [3] * 500 + [7] * 9000 + [None] * 500


def test_texts_that_differ_late_are_sorted_too(engine: str) -> None:
    """Ranks look at the first 64 bytes, so that all of these are in one range, which does not fit into memory."""
    random = np.random.default_rng(3)
    names = ["p" * 80 + str(number) for number in random.permutation(8000)]
    table = pa.table({"name": names, "other": random.integers(0, 3, 8000)})
    place = filled(Place.at(), table)
    made = place.cluster(engine, table.schema, ["name"], even_rows(8000, 5), memory_bytes=SMALL)
    found = pa.concat_tables(place.read(file.path) for file in made)
    assert found["name"].to_pylist() == sorted(names)
    assert multiset([found]) == multiset([table])


@pytest.mark.parametrize("most", [4, 65_536])
def test_texts_of_few_values_travel_as_numbers(engine: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless there turn out to be more than the first file let expect: then rows are read again, as they are."""
    monkeypatch.setattr(cluster_texts, "MOST_VALUES", most)
    numbered = []
    number = cluster_texts.TextCodes.numbered
    monkeypatch.setattr(
        cluster_texts.TextCodes,
        "numbered",
        lambda self, batch: numbered.append(self.schema.field("kind").type) or number(self, batch),
    )
    random = np.random.default_rng(4)
    kinds = pa.array([f"kind {n}" if n else None for n in random.integers(0, 6, 6000).tolist()])
    table = pa.table({"id": random.permutation(6000), "kind": kinds, "name": [f"{n:x}" for n in range(6000)]})
    place = filled(Place.at(), table, files=2)
    made = place.cluster(engine, table.schema, ["id"], [4000, 2000])
    found = pa.concat_tables(place.read(file.path) for file in made)
    assert found.schema.equals(table.schema)
    assert found.equals(table.sort_by("id"))
    assert set(numbered) == ({pa.int32()} if most > 5 else {pa.int32(), pa.string()})


def test_every_type_passes_through(place: Place, engine: str, all_types: pa.Table) -> None:
    kinds = pa.array(["a", "b", None, "a", "a"]).dictionary_encode()
    table = all_types.append_column("kind", kinds).append_column("ID", pa.array(range(5), pa.int8()))
    table = table.replace_schema_metadata({"owner": "us"})
    filled(place, table, files=2)
    made = place.cluster(engine, table.schema, ["id", "string"], [3, 2])
    found = [place.read(file.path) for file in made]
    assert multiset(found) == multiset([table])
    for part in found:
        assert part.schema.equals(table.schema)
        for name in table.schema.names:
            want = table.schema.field(name).metadata or {}
            assert (part.schema.field(name).metadata or {}).items() >= want.items()
        assert part.schema.metadata[b"owner"] == b"us"


def test_every_type_with_an_order_can_be_clustered_by(engine: str, all_types: pa.Table) -> None:
    halves = pa.array([np.float16(value) for value in (1, -1, 3)] + [None, np.float16("nan")], pa.float16())
    table = all_types.append_column("half", halves).append_column(
        "span", pa.array([3, 1, None, 2, 2], pa.duration("s"))
    )
    table = table.append_column("small", pa.array([1, -3, None, 0, 2], pa.decimal64(5, 0)))
    table = table.append_column("kind", pa.array(["b", "a", None, "c", "a"]).dictionary_encode())
    names = [field.name for field in table.schema if is_orderable(field.type)]
    assert len(names) > 30
    for name in names:
        own = table.select(["id", name] if name != "id" else ["id"])
        place = filled(Place.at(), own, files=2)
        made = place.cluster(engine, own.schema, [name], [2, 2, 1])
        found = pa.concat_tables(place.read(file.path) for file in made)
        assert multiset([found]) == multiset([own]), name
        column = found[name]
        if name not in ("moment_ns", "berlin_ns", "time_ns"):  # Python has no nanoseconds
            assert position(column) == sorted(position(column)), name
        else:
            ticks = position(pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks]))
            assert ticks == sorted(ticks), name


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        (["nmae"], ColumnNotFoundError, 'did you mean "name"'),
        ([], InvalidOptionError, "at least one"),
        (["id", "id"], InvalidOptionError, "twice"),
        (["id", "tags"], UnsupportedTypeError, '"tags"'),
        (["tags"], UnsupportedTypeError, '"tags"'),
    ],
)
def test_columns_that_cannot_be_clustered_by_are_refused(
    engine: str, columns: list[str], error: type[Exception], text: str
) -> None:
    place = filled(Place.at(), shuffled(100))
    with pytest.raises(error, match=text):
        place.cluster(engine, SCHEMA, columns, [100])
    assert place.stored() == set(place.sources)


def test_more_than_eight_columns_are_refused(engine: str) -> None:
    table = pa.table({f"c{n}": range(10) for n in range(9)})
    place = filled(Place.at(), table, files=2)
    with pytest.raises(InvalidOptionError, match="9 columns"):
        place.cluster(engine, table.schema, table.column_names, [10])
    assert place.stored() == set(place.sources)
    made = place.cluster(engine, table.schema, table.column_names[:8], [10])
    assert place.read(made[0].path).equals(table)


def test_no_rows_make_the_files_planned(engine: str) -> None:
    place = Place.at()
    place.add(SCHEMA.empty_table())
    (made,) = place.cluster(engine, SCHEMA, ["id"], [0])
    assert place.read(made.path).schema.equals(SCHEMA)


def test_a_mark_of_the_caller_wins(engine: str) -> None:
    place = filled(Place.at(), shuffled(50))
    (made,) = place.cluster(engine, SCHEMA, ["id"], [50], metadata={b"parqlake.clustering": b"own", b"job": b"7"})
    entries = place.footer(made.path).metadata
    assert (entries[b"parqlake.clustering"], entries[b"job"]) == (b"own", b"7")


@pytest.mark.parametrize("fails", [False, True])
def test_temporary_files_are_gone_at_the_end(
    engine: str, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = filled(Place.at(), shuffled(20_000))
    if fails:
        place.spoil(place.sources[4], lambda content: content[:5000] + b"\xff" * 20_000 + content[25_000:])
        with pytest.raises(Exception, match="source-4"):
            place.cluster(engine, SCHEMA, ["x", "y"], [20_000], memory_bytes=8 * SMALL)
    else:
        place.cluster(engine, SCHEMA, ["x", "y"], [20_000], memory_bytes=8 * SMALL)
    assert list(tmp_path.iterdir()) == []


def test_both_engines_are_tested() -> None:
    assert CLUSTERERS["pyarrow"] is not CLUSTERERS["duckdb"]
