"""Rewriting: the same rows in the same order, in files of exactly the lengths asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from test_rewriting_place import ENGINES, Place, even_rows

from parqlake.core.clustering import Curve, clustering_mark
from parqlake.core.clustering.marks import MARK_KEY
from parqlake.core.maintenance import has_codec

CODECS = ["snappy", "zstd", "gzip", "lz4", "brotli", "none"]
URLS = ["memory", "local"]


@pytest.fixture(params=URLS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of store in turn."""
    return Place.at(str(tmp_path / "lake") if request.param == "local" else None)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [None, [5, 5, 5], [1, 13, 1], [15], [0, 15, 0]])
def test_files_have_exactly_the_rows_asked_for(place: Place, engine: str, rows: list[int] | None) -> None:
    table = pa.table({"id": range(15), "name": [f"n{i}" for i in range(15)]})
    for start in (0, 6, 7):
        place.add(table.slice(start, {0: 6, 6: 1, 7: 8}[start]))
    made = place.rewrite(engine, table.schema, rows)
    assert [file.num_rows for file in made] == (rows or [15])
    assert [file.path for file in made] == [f"data/p=1/new-{n}.tmp" for n in range(len(made))]
    assert pa.concat_tables(place.read(file.path) for file in made).equals(table)
    sizes = {file.path: file.size_bytes for file in place.store.list_files("data")}
    assert [file.size_bytes for file in made] == [sizes[file.path] for file in made]
    assert set(place.sources) <= set(sizes), "sources stay: whoever planned the rewrite deletes them"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_type_and_the_schema_pass_through(place: Place, engine: str, all_types: pa.Table) -> None:
    halves = pa.array([np.float16(x) for x in (1.5, -0.0, 3)] + [None, np.float16("nan")], pa.float16())
    more = all_types.append_column(pa.field("half", halves.type, metadata={"unit": "m"}), halves)
    more = more.append_column(
        pa.field("span", pa.duration("ms"), nullable=False), pa.array(range(5), pa.duration("ms"))
    )
    more = more.append_column("kind", pa.array(["a", "b", "a", None, "b"]).dictionary_encode())
    more = more.replace_schema_metadata({"owner": "us"})
    place.add(more.slice(0, 2))
    place.add(more.slice(2))
    made = place.rewrite(engine, more.schema, [4, 1], compression="zstd")
    found = [place.read(file.path) for file in made]
    for table in found:
        assert table.schema.equals(more.schema), "types, order and nullability"
        for name in more.schema.names:
            assert (table.schema.field(name).metadata or {}).items() >= (more.schema.field(name).metadata or {}).items()
        assert table.schema.metadata[b"owner"] == b"us"
    assert str(pa.concat_tables(found).to_pylist()) == str(more.to_pylist())


@pytest.mark.parametrize("codec", CODECS)
def test_the_codec_is_the_one_named(codec: str) -> None:
    place = Place.at()
    place.add(pa.table({"a": range(2000), "b": ["x"] * 2000}), compression="gzip" if codec != "gzip" else "snappy")
    made = place.rewrite("pyarrow", pa.schema([("a", pa.int64()), ("b", pa.string())]), compression=codec)
    assert has_codec(place.footer(made[0].path), codec)
    assert not has_codec(place.footer(place.sources[0]), codec)


def test_files_that_differ_in_encoding_or_order_become_alike(place: Place) -> None:
    wanted = pa.schema(
        [
            ("id", pa.int32()),
            pa.field("name", pa.string(), metadata={"note": "kept"}),
            ("kind", pa.dictionary(pa.int32(), pa.string())),
            ("tags", pa.list_(pa.string())),
            ("inner", pa.struct([("k", pa.dictionary(pa.int32(), pa.string()))])),
        ]
    )
    rows = [
        {"id": n, "name": f"n{n}", "kind": "abc"[n % 3], "tags": ["x", str(n)], "inner": {"k": "pq"[n % 2]}}
        for n in range(9)
    ]
    other = pa.schema(
        [
            ("tags", pa.large_list(pa.large_string())),
            ("kind", pa.large_string()),
            ("inner", pa.struct([("k", pa.string())])),
            ("name", pa.dictionary(pa.int16(), pa.large_string())),
            ("id", pa.int32()),
        ]
    )
    place.add(pa.Table.from_pylist(rows[:3], wanted))
    place.add(pa.Table.from_pylist(rows[3:6], other))
    place.add(pa.Table.from_pylist(rows[6:], other), store_schema=False)
    (made,) = place.rewrite("pyarrow", wanted)
    found = place.read(made.path)
    assert found.to_pylist() == rows
    assert found.schema.equals(wanted)
    assert found.schema.field("name").metadata[b"note"] == b"kept"


def test_views_of_text_can_be_asked_for(place: Place) -> None:
    wanted = pa.schema([("name", pa.string_view())])
    place.add(pa.table({"name": ["a", None, "a text longer than a view holds inline"]}))
    (made,) = place.rewrite("pyarrow", wanted)
    assert place.read(made.path).schema.equals(wanted)
    assert place.read(made.path)["name"].to_pylist() == ["a", None, "a text longer than a view holds inline"]


def test_footers_carry_what_is_given_and_no_mark_of_a_former_order(place: Place) -> None:
    mark = clustering_mark(["a"], Curve.HILBERT, run="r1", files=1)
    place.add(pa.table({"a": [1, 2]}).replace_schema_metadata({**mark, b"owner": b"us"}))
    schema = pq.read_schema(place.store.full_path(place.sources[0]), filesystem=place.store.arrow_filesystem())
    assert MARK_KEY in schema.metadata
    (made,) = place.rewrite("pyarrow", schema, metadata={b"job": b"7"})
    entries = place.footer(made.path).metadata
    assert entries[b"job"] == b"7"
    assert entries[b"owner"] == b"us"
    assert MARK_KEY not in entries


def test_no_rows_make_an_empty_file_with_the_schema(place: Place) -> None:
    schema = pa.schema([("a", pa.int64()), pa.field("b", pa.string(), nullable=False)])
    place.add(schema.empty_table())
    place.add(schema.empty_table())
    (made,) = place.rewrite("pyarrow", schema, [0])
    assert made.num_rows == 0
    assert place.read(made.path).schema.equals(schema)


def test_long_files_get_row_groups_of_equal_length() -> None:
    place = Place.at()
    place.add(pa.table({"a": np.arange(1_100_000, dtype=np.int8)}))
    (made,) = place.rewrite("pyarrow", pa.schema([("a", pa.int8())]))
    footer = place.footer(made.path)
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [550_000, 550_000]


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-(2**63), 2**63 - 1),
            "s": st.none() | st.text(max_size=6),
            "d": st.none() | st.floats(),
            "n": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
        }
    ),
    max_size=60,
)
SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string()), ("d", pa.float64()), ("n", pa.list_(pa.int32()))])


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(ROWS, min_size=1, max_size=4), data=st.data())
def test_rows_and_their_order_survive_any_cut(parts: list[list[dict[str, object]]], data: st.DataObject) -> None:
    place = Place.at()
    for part in parts:
        copied = data.draw(st.booleans())  # with little memory these row groups are long enough
        length = data.draw(st.integers(1, 20))
        place.add(pa.Table.from_pylist(part, SCHEMA), row_group_size=length, write_page_checksum=copied)
    total = sum(map(len, parts))
    rows = even_rows(total, data.draw(st.integers(1, max(1, min(total, 7)))))
    memory = data.draw(st.sampled_from([1, 500, 20_000, 10**9]))
    made = place.rewrite("pyarrow", SCHEMA, rows, memory_bytes=memory)
    assert [file.num_rows for file in made] == rows
    found = [row for file in made for row in place.read(file.path).to_pylist()]
    given_rows = pa.Table.from_pylist([row for part in parts for row in part], SCHEMA).to_pylist()
    assert str(found) == str(given_rows)  # as text, in which NaN equals NaN
