"""Row groups that a rewrite copies without decoding them: the same bytes, the same rows, and no damage passed on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_rewriting_place import MEGABYTE, Place

import parqlake
from parqlake.core.errors import DataCorruptionError
from parqlake.engines.arrow import parquet_thrift as thrift
from parqlake.engines.arrow.raw_groups import RawFooter, footer_bytes

ROWS = 1000
"""With a megabyte of memory, half of it for rows, these are a long row group."""
OURS = {"compression": "snappy", "write_page_checksum": True, "store_decimal_as_integer": True}


def wide(count: int, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": chance.integers(-(2**62), 2**62, count),
            "price": pa.array(chance.integers(0, 10**9, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 0)),
            "kind": pa.array([None, "a", "b", "c"]).take(pa.array(chance.integers(0, 4, count))),
            "at": pa.array(chance.integers(0, 10**15, count), pa.timestamp("us", "UTC")),
            "tags": pa.array([[str(n)] * (n % 3) for n in range(count)]),
        }
    )


def raw(place: Place, path: str) -> tuple[bytes, RawFooter]:
    content = place.store.read_bytes(path)
    length = footer_bytes(content[-8:])
    return content, RawFooter.parse(content[-8 - length : -8])


def groups(place: Place, path: str) -> list[bytes]:
    """The bytes of each row group."""
    content, footer = raw(place, path)
    return [content[group.start : group.stop] for group in footer.groups]


def rewrite(place: Place, table: pa.Table, rows: list[int] | None = None, **options: Any) -> list[str]:
    made = place.rewrite("pyarrow", table.schema, rows, **{"memory_bytes": MEGABYTE} | options)
    assert pa.concat_tables(place.read(file.path) for file in made).equals(table)
    return [file.path for file in made]


@pytest.mark.parametrize("url", ["memory", "local"])
def test_long_row_groups_are_copied_and_short_ones_put_together(url: str, tmp_path: Path) -> None:
    place = Place.at(str(tmp_path / "lake") if url == "local" else None)
    table = wide(4 * ROWS + 200)
    place.add(table.slice(0, 100), **OURS)
    place.add(table.slice(100, 2 * ROWS), row_group_size=ROWS, **OURS)
    place.add(table.slice(2 * ROWS + 100, 2 * ROWS), row_group_size=ROWS, **OURS)
    place.add(table.slice(4 * ROWS + 100), **OURS)
    (made,) = rewrite(place, table)
    old = groups(place, place.sources[1]) + groups(place, place.sources[2])
    assert groups(place, made)[1:-1] == old
    footer = place.footer(made)
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [100, *[ROWS] * 4, 100]
    source = place.footer(place.sources[2])
    for column in range(footer.num_columns):
        old_column, new_column = source.row_group(1).column(column), footer.row_group(4).column(column)
        assert new_column.statistics == old_column.statistics
    assert pq.read_schema(place.store.full_path(made), filesystem=place.store.arrow_filesystem()).equals(table.schema)
    if url == "local":
        import duckdb

        path = place.store.full_path(made)
        with duckdb.connect() as connection:
            ((count, ids),) = connection.execute("SELECT count(*), sum(id) FROM read_parquet(?)", [path]).fetchall()
        assert (count, ids) == (table.num_rows, sum(table["id"].to_pylist()))


def test_row_groups_across_an_end_are_cut_and_the_others_copied() -> None:
    place = Place.at()
    table = wide(6 * ROWS)
    place.add(table, row_group_size=ROWS, **OURS)
    old = groups(place, place.sources[0])
    first, second = rewrite(place, table, [2 * ROWS + 200, 4 * ROWS - 200])
    assert [group for group in groups(place, first) if group in old] == old[:2]
    assert [group for group in groups(place, second) if group in old] == old[3:]


def test_only_what_a_rewrite_would_make_just_so_is_copied() -> None:
    table = wide(2 * ROWS)
    for options in ({"compression": "zstd"}, {"write_page_checksum": False}, {"store_decimal_as_integer": False}):
        place = Place.at()
        place.add(table, row_group_size=ROWS, **OURS | options)
        (made,) = rewrite(place, table)
        assert not set(groups(place, made)) & set(groups(place, place.sources[0])), options
    place = Place.at()
    place.add(table.select(table.schema.names[::-1]), row_group_size=ROWS, **OURS)
    rewrite(place, table)


@pytest.mark.parametrize("where", range(5))
def test_damage_is_never_copied(where: int) -> None:
    place = Place.at()
    table = wide(2 * ROWS)
    place.add(table, row_group_size=ROWS, **OURS)
    _, footer = raw(place, place.sources[0])
    group = footer.groups[1]
    before = place.stored()

    def flip(content: bytearray) -> bytearray:
        content[group.start + 40 + (group.stop - group.start - 80) * where // 4] ^= 4
        return content

    place.spoil(place.sources[0], flip)
    with pytest.raises(DataCorruptionError, match=r"source-0\.parquet"):
        rewrite(place, table)
    assert place.stored() == before


def test_statistics_of_copied_row_groups_know_of_nan(tmp_path: Path) -> None:
    lake = parqlake.connect(tmp_path / "lake")
    chance = np.random.default_rng(1)
    count = 4 * ROWS
    first = pa.table({"id": range(count), "x": chance.normal(size=count), "y": [[0.5]] * count})
    odd = first.set_column(1, "x", pa.array(np.where(np.arange(count) == 77, np.nan, 3.0 + chance.random(count))))
    table = lake.create_table("a.b", first.schema)
    for rows in (first, odd, first):
        table.append(rows, engine="pyarrow")
    described = ("column", "min", "max", "null_count", "row_count")
    known = [name for name in described if name in table.row_groups().column_names]
    before = sorted(map(str, table.row_groups().select(known).to_pylist()))
    stats = table.compact(memory_limit=MEGABYTE, engine="pyarrow")
    assert (stats.compacted_file_count, stats.after_file_count) == (3, 1)
    assert sorted(map(str, table.row_groups().select(known).to_pylist())) == before, "row groups stayed as they were"
    plan = table.scan("x > 1e300").explain()
    assert plan.row_groups_read == 1
    assert table.scan("x > 1e300").to_arrow().num_rows == 1
    assert table.scan("id = 77").to_arrow().num_rows == 3
    assert not lake.check().findings


def test_texts_of_few_values_are_the_same_whether_they_were_decoded_or_not(tmp_path: Path) -> None:
    place = Place.at(str(tmp_path / "files"))
    words = pa.array(["x", "b", None, "z", "a", "é" * 9])
    count = 3000
    schema = pa.schema([pa.field("kind", pa.string(), metadata={"note": "kept"}), ("id", pa.int64())])
    parts = []
    for number, (first, last) in enumerate([(0, 3), (1, 6), (3, 4), (0, 6), (2, 3)]):  # each with words of its own
        picked = np.random.default_rng(number).integers(first, last, count)
        parts.append(pa.table([words.take(pa.array(picked)), pa.array(range(count))], schema=schema))
    for number, part in enumerate(parts):
        shown = part.select(["id", "kind"]) if number == 3 else part
        place.add(shown, use_dictionary=number != 1)
    made = place.rewrite("pyarrow", schema, [4000, 11000])
    table = pa.concat_tables(parts)
    found = [place.read(file.path) for file in made]
    assert pa.concat_tables(found).equals(table)
    for file, rows in zip(made, found, strict=True):
        assert rows.schema.equals(schema)
        assert rows.schema.field("kind").metadata[b"note"] == b"kept"
        column = place.footer(file.path).row_group(0).column(0)
        assert "RLE_DICTIONARY" in column.encodings
        values = rows["kind"].drop_null().to_pylist()
        assert (column.statistics.min, column.statistics.max) == (min(values), max(values))
        assert column.statistics.null_count == rows["kind"].null_count
    lake = parqlake.connect(tmp_path / "lake")
    kept = lake.create_table("a.b", schema)
    kept.append(parts[0])
    kept.rename_column("kind", "sort")
    kept.append(parts[1].rename_columns(["sort", "id"]))
    before = kept.scan().to_arrow()
    assert kept.compact(engine="pyarrow").after_file_count == 1
    assert kept.scan().to_arrow().equals(before)
    assert before.num_rows == 2 * count


def test_structures_are_read_as_they_were_written() -> None:
    place = Place.at()
    place.add(wide(300), row_group_size=10, write_page_index=True, **OURS)
    content, footer = raw(place, place.sources[0])
    assert thrift.serialized(footer.fields) == content[-8 - footer_bytes(content[-8:]) : -8]
    struct: thrift.Struct = {
        1: (thrift.I64, -(2**63)),
        2: (thrift.I32, 2**31 - 1),
        40: (thrift.BINARY, b"x" * 300),
        41: (thrift.DOUBLE, b"12345678"),
        42: (thrift.TRUE, True),
        43: (thrift.FALSE, False),
        2000: (thrift.LIST, (thrift.TRUE, [True, False] * 20)),
        2001: (thrift.LIST, (thrift.STRUCT, [{1: (thrift.BYTE, 7)}, {}])),
    }
    data = thrift.serialized(struct)
    assert thrift.Reader(data).struct() == struct
    for cut in range(len(data)):
        with pytest.raises(DataCorruptionError):
            thrift.Reader(data[:cut]).struct()
