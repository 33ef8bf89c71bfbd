"""Merges, on both engines: what happens to rows, to files, and to calls that are wrong."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_merging_model import ENGINES, World, as_set, merge_function, world

from parqlake.core.errors import DataCorruptionError, ParqlakeError, StoreError, UnsupportedTypeError
from parqlake.core.merging import DuplicateKeysWarning, merge_rule
from parqlake.core.statistics import describe_file

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture(params=ENGINES)
def name(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.param)


def rows(ids: Any, value: str = "new", schema: pa.Schema = SCHEMA) -> pa.Table:
    ids = list(ids)
    return pa.table([pa.array(ids, pa.int64()), pa.array([f"{value}{number}" for number in ids])], schema=schema)


@pytest.fixture
def three(tmp_path: Path) -> World:
    """Three files on local disk: 0 to 9, 10 to 19, 20 to 29."""
    return world(SCHEMA, [rows(range(start, start + 10), "old") for start in (0, 10, 20)], url=str(tmp_path / "lake"))


def test_only_files_with_a_match_are_written_again(three: World, name: str) -> None:
    old = list(three.files)
    outcome = three.merge(name, rows([12, 14, 100]), ["id"])
    assert outcome.counts.to_dict() == {"inserted": 1, "updated": 2, "deleted": 0, "total": 31}
    assert outcome.removed == (old[1],)
    assert outcome.read == (old[1], old[2])  # the range 12 to 100 rules out the first alone
    assert [bound.as_py() for bound in outcome.key_bounds["id"]] == [12, 100]
    replaced, inserted = sorted(outcome.added, key=lambda file: file.row_count, reverse=True)
    assert (replaced.replaces, inserted.replaces) == (old[1].path, None)
    assert three.read_file(replaced.path)["id"].to_pylist() == list(range(10, 20))  # rows keep their places
    assert three.read_file(replaced.path)["v"].to_pylist()[2:6] == ["new12", "old13", "new14", "old15"]
    assert all(file.path in three.stored() for file in old)  # nothing is deleted here
    assert replaced.size_bytes == Path(three.store.full_path(replaced.path)).stat().st_size


def test_a_file_whose_range_fits_but_holds_no_match_stays(three: World, name: str) -> None:
    three.add(rows([50, 60]))
    outcome = three.merge(name, rows([55]), ["id"])
    assert outcome.removed == ()
    assert [file.row_count for file in outcome.added] == [1]


def test_insert_touches_no_file(three: World, name: str) -> None:
    outcome = three.merge(name, rows([3, 4, 40]), ["id"], "insert")
    assert (outcome.removed, len(outcome.added)) == ((), 1)
    assert outcome.counts.to_dict() == {"inserted": 1, "updated": 0, "deleted": 0, "total": 31}
    again = three.merge(name, rows([3, 4, 40]), ["id"], "insert")
    assert (again.removed, again.added, again.counts.inserted) == ((), (), 0)


def test_update_adds_nothing(three: World, name: str) -> None:
    outcome = three.merge(name, rows([3, 40]), ["id"], "update")
    assert outcome.counts.to_dict() == {"inserted": 0, "updated": 1, "deleted": 0, "total": 30}
    nothing = three.merge(name, rows([40]), ["id"], "update")
    assert (nothing.removed, nothing.added) == ((), ())


def test_full_merge_leaves_what_the_source_holds(three: World, name: str) -> None:
    outcome = three.merge(name, rows([5, 25, 45]), ["id"], "full_merge")
    assert outcome.counts.to_dict() == {"inserted": 1, "updated": 2, "deleted": 28, "total": 3}
    assert len(outcome.removed) == 3
    assert as_set(three.read().to_pylist()) == as_set(rows([5, 25, 45]).to_pylist())


def test_full_merge_with_nothing_leaves_the_columns(three: World, name: str) -> None:
    outcome = three.merge(name, SCHEMA.empty_table(), ["id"], "full_merge")
    assert outcome.counts.to_dict() == {"inserted": 0, "updated": 0, "deleted": 30, "total": 0}
    (empty,) = outcome.added
    assert three.read_file(empty.path).schema == SCHEMA
    refilled = three.merge(name, rows([1]), ["id"])
    assert (refilled.counts.total, three.read().num_rows) == (1, 1)


@pytest.mark.parametrize("strategy", ["upsert", "insert", "deduplicate", "full_merge"])
def test_an_empty_target_is_filled(name: str, strategy: str) -> None:
    here = world(SCHEMA)
    outcome = here.merge(name, rows([1, 2]), ["id"], strategy)
    assert outcome.counts.to_dict() == {"inserted": 2, "updated": 0, "deleted": 0, "total": 2}
    assert here.read().equals(rows([1, 2]))


def test_an_update_of_nothing_is_nothing(name: str) -> None:
    outcome = world(SCHEMA).merge(name, rows([1, 2]), ["id"], "update")
    assert (outcome.removed, outcome.added) == ((), ())
    assert outcome.counts.to_dict() == {"inserted": 0, "updated": 0, "deleted": 0, "total": 0}


def test_duplicate_source_keys_warn_where_the_merge_was_called(three: World, name: str) -> None:
    twice = pa.concat_tables([rows([5], "first"), rows([5, 6], "last")])
    with pytest.warns(DuplicateKeysWarning, match="1 more rows than keys") as caught:
        three.merge(name, twice, ["id"])
    assert Path(caught[0].filename).name == "test_merging_model.py"
    found = three.read().filter(pc.field("id") == 5)
    assert found["v"].to_pylist() == ["last5"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert three.merge(name, twice, ["id"], "deduplicate").counts.updated == 2


def test_every_target_row_with_the_key_is_updated(three: World, name: str) -> None:
    three.add(rows([5, 5, 99], "twin"))
    outcome = three.merge(name, rows([5]), ["id"])
    assert (outcome.counts.updated, outcome.counts.total) == (3, 33)
    assert three.read().filter(pc.field("id") == 5)["v"].to_pylist() == ["new5"] * 3


def test_a_row_can_be_changed_in_part(name: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    here = world(schema, [pa.table([[1, 2], [10, 20], [100, 200]], schema=schema)])
    here.merge(name, pa.table([[2, 3], [-2, -3], [-20, -30]], schema=schema), ["id"], update_columns=["b"])
    assert sorted(here.read().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "a": 10, "b": 100},
        {"id": 2, "a": 20, "b": -20},
        {"id": 3, "a": -3, "b": -30},
    ]


def test_a_row_that_changes_its_partition_moves(name: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("day", pa.date32())])
    here = world(schema, partition_by=("day",))
    one, two = np.datetime64("2025-11-01").item(), np.datetime64("2025-11-02").item()
    here.add(rows([1, 2, 3], "old"), {"day": one})
    untouched = here.add(rows([7], "old"), {"day": two})
    source = rows([2, 3]).append_column("day", pa.array([two, one]))
    outcome = here.merge(name, source, ["id"])
    assert outcome.counts.to_dict() == {"inserted": 0, "updated": 2, "deleted": 0, "total": 4}
    assert untouched in here.files
    found = {row["id"]: (row["v"], row["day"]) for row in here.read().to_pylist()}
    assert found == {1: ("old1", one), 2: ("new2", two), 3: ("new3", one), 7: ("old7", two)}
    assert {file.folder for file in here.files} == {"data/day=2025-11-01", "data/day=2025-11-02"}


def test_null_is_a_partition_of_its_own(name: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("p", pa.int32())])
    here = world(schema, partition_by=("p",))
    here.add(rows([1, 2], "old"), {"p": None})
    source = rows([1, 2, 3]).append_column("p", pa.array([None, 5, None], pa.int32()))
    assert here.merge(name, source, ["id"]).counts.to_dict() == {"inserted": 1, "updated": 2, "deleted": 0, "total": 3}
    assert {row["id"]: row["p"] for row in here.read().to_pylist()} == {1: None, 2: 5, 3: None}


@pytest.mark.parametrize("where", ["source", "target"])
@pytest.mark.parametrize("statistics", [True, False])
def test_null_keys_are_refused_on_both_sides(three: World, name: str, where: str, statistics: bool) -> None:
    holed = pa.table([pa.array([1, None], pa.int64()), pa.array(["x", "y"])], schema=SCHEMA)
    if where == "target":
        three.add(holed, write_statistics=statistics)
    before = three.stored()
    source = holed if where == "source" else rows([700])
    with pytest.raises(ValueError, match=f"'id' of the {where} contains 1 NULL values"):
        three.merge(name, source, ["id"])
    assert three.stored() == before


def test_wrong_calls_write_nothing(three: World, name: str) -> None:
    before = three.stored()
    for source, error, words in (
        (rows([1]).drop_columns("v"), ValueError, "Schema mismatch"),
        (rows([1]).set_column(0, "id", pa.array([1], pa.int32())), TypeError, "int32 in the source, int64 in"),
        (rows([1]).rename_columns(["key", "v"]), ValueError, "Key column 'id' not found in source"),
    ):
        with pytest.raises(error, match=words):
            three.merge(name, source, ["id"])
    assert three.stored() == before


def test_names_and_paths_are_never_patterns_or_sql(tmp_path: Path, name: str) -> None:
    odd = 'a"; DROP TABLE x; --'
    schema = pa.schema([(odd, pa.int64()), ("file_index", pa.string()), ("filename", pa.string())])
    here = world(schema, partition_by=("filename",), url=str(tmp_path / "o'dd [1] *?"))
    for value in ("x[1]*?'", "x1"):
        here.add(pa.table([[1, 2], [value, value]], names=[odd, "file_index"]), {"filename": value})
    source = pa.table([[2, 3], ["new", "new"], ["x1", "x[1]*?'"]], schema=schema)
    outcome = here.merge(name, source, [odd, "filename"])
    assert outcome.counts.to_dict() == {"inserted": 1, "updated": 1, "deleted": 0, "total": 5}
    found = {(row[odd], row["filename"]): row["file_index"] for row in here.read().to_pylist()}
    assert found[2, "x1"] == "new" and found[2, "x[1]*?'"] == "x[1]*?'" and found[3, "x[1]*?'"] == "new"


def test_columns_that_older_files_lack_are_null(name: str) -> None:
    schema = SCHEMA.append(pa.field("later", pa.list_(pa.int32())))
    here = world(schema, [rows([1, 2], "old")])
    here.merge(name, rows([2]).append_column("later", pa.array([[7]], pa.list_(pa.int32()))), ["id"])
    assert [row["later"] for row in here.read().to_pylist()] == [None, [7]]


def test_known_bounds_save_reading(three: World, name: str) -> None:
    """A file that nobody has to open may as well be missing."""
    three.files = [
        replace(file, key_bounds={"id": (start, start + 9)}, keys_not_null=True)
        for file, start in zip(three.files, (0, 10, 20), strict=True)
    ]
    Path(three.store.full_path(three.files[0].path)).unlink()
    assert three.merge(name, rows([15, 77]), ["id"]).counts.total == 31
    with pytest.raises(ParqlakeError, match="no file at"):
        three.merge(name, rows([5]), ["id"])


def test_a_damaged_file_is_named(three: World, name: str) -> None:
    """The last file is cut short, which is seen before anything is written."""
    bad = Path(three.store.full_path(three.files[2].path))
    bad.write_bytes(bad.read_bytes()[:-40])
    before = three.stored()
    with pytest.raises(DataCorruptionError, match="is damaged"):
        three.merge(name, rows([5, 15, 25]), ["id"])
    assert three.stored() == before


def test_a_failure_in_the_middle_leaves_nothing_behind(three: World, name: str) -> None:
    three.schema = SCHEMA.set(1, pa.field("v", pa.string(), nullable=False))
    three.add(pa.table([[25, 26], pa.array(["x", None])], schema=SCHEMA))
    before = three.stored()
    with pytest.raises(ValueError, match='"v" is NOT NULL'):
        three.merge(name, rows([5, 15, 25], schema=three.schema), ["id"])
    assert three.stored() == before


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_whichever_new_file_fails_none_stays(three: World, name: str, failing: int) -> None:
    """New files number `failing` and later lie below a file, where no folder can be made."""
    Path(three.store.full_path("data/wall")).write_bytes(b"")
    before = three.stored()
    asked = []

    def new_path(folder: str) -> str:
        asked.append(folder)
        return f"{folder}/{'wall/' if len(asked) >= failing else ''}new-{len(asked)}.parquet"

    target = replace(three.target(), new_path=new_path)
    with pytest.raises(StoreError, match="wall"):
        merge_function(name)(rows([5, 15, 25, 35]), target, merge_rule("id"))
    assert len(asked) >= failing
    assert three.stored() == before


def test_a_source_that_breaks_off_writes_nothing(three: World, name: str, tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(range(100)).to_batches()
        raise ConnectionResetError("the other side went away")

    before, spill = three.stored(), tmp_path / "spill"
    spill.mkdir()
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    with pytest.raises(ConnectionResetError, match="the other side went away"):
        three.merge(name, reader, ["id"], memory_bytes=100, spill_folder=str(spill))
    assert three.stored() == before
    assert list(spill.iterdir()) == []


def test_nothing_is_left_where_rows_were_put_aside(three: World, name: str, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    three.merge(name, rows(range(5, 5000)), ["id"], memory_bytes=1000, spill_folder=str(spill))
    assert list(spill.iterdir()) == []
    assert three.read().num_rows == 5000


def test_inserted_rows_join_the_folder_that_is_there(name: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("month", pa.int32())])
    here = world(schema, partition_by=("month",))
    file = here.add(rows([1], "old"), {"month": 1})
    moved = f"data/month=01/{file.path.rpartition('/')[2]}"
    here.store.make_folders(["data/month=01"])
    here.store.filesystem.mv(here.store.full_path(file.path), here.store.full_path(moved))
    here.files = [replace(file, path=moved, partition={"month": "01"})]
    here.merge(name, rows([2, 3]).append_column("month", pa.array([1, 2], pa.int32())), ["id"])
    assert {file.folder for file in here.files} == {"data/month=01", "data/month=2"}
    assert sorted((row["id"], row["month"]) for row in here.read().to_pylist()) == [(1, 1), (2, 1), (3, 2)]


def test_new_files_can_be_described_for_a_catalog(three: World, name: str) -> None:
    outcome = three.merge(name, rows([12, 40]), ["id"])
    for file in outcome.added:
        told = describe_file(file.path, file.size_bytes, file.metadata, SCHEMA, partition={}, nans=file.nans)
        assert told.row_count == file.row_count == three.read_file(file.path).num_rows


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
def test_new_files_have_the_codec(three: World, name: str, codec: str) -> None:
    three.options = {"compression": codec}
    for file in three.merge(name, rows([12, 40]), ["id"], batch_rows=3).added:
        found = file.metadata.row_group(0).column(0).compression
        assert found == ("UNCOMPRESSED" if codec == "none" else codec.upper())


def test_a_null_inside_a_nested_column_that_takes_none(name: str) -> None:
    must = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    may = pa.struct([pa.field("a", pa.int32())])
    here = world(pa.schema([("id", pa.int64()), ("s", must)]), [pa.table({"id": [1], "s": pa.array([{"a": 1}], must)})])
    before = here.stored()
    with pytest.raises((ValueError, TypeError)) as caught:
        here.merge(name, pa.table({"id": [2], "s": pa.array([{"a": None}], may)}), ["id"])
    assert isinstance(caught.value, ParqlakeError)
    assert here.stored() == before
    here.merge(name, pa.table({"id": [1], "s": pa.array([{"a": 5}], may)}), ["id"])
    assert here.read()["s"].to_pylist() == [{"a": 5}]


def test_large_inserts_are_cut_into_files(name: str) -> None:
    here = world(SCHEMA, options={"max_rows_per_file": 400})
    outcome = here.merge(name, rows(range(1000)), ["id"])
    assert sorted(file.row_count for file in outcome.added) == [200, 400, 400]
    assert as_set(here.read().to_pylist()) == as_set(rows(range(1000)).to_pylist())


def test_duckdb_says_what_it_cannot_hold() -> None:
    schema = SCHEMA.append(pa.field("wide", pa.decimal256(50, 2)))
    with pytest.raises(UnsupportedTypeError, match=r'"wide": DuckDB cannot hold decimal256.*engine="pyarrow"'):
        world(schema).merge("duckdb", schema.empty_table(), ["id"])
