"""Versions of a table: what a commit adds, what each version sees, and who wins."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from catalog_support import SCHEMA, START, Lab, id_file

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.core.errors import (
    CatalogError,
    ConcurrentDropError,
    ConcurrentRemoveError,
    ConflictError,
    InputError,
    TableNotFoundError,
    VersionNotFoundError,
)
from parqlake.core.model import LIVE, Head, Operation
from parqlake.core.ports import NewSnapshot
from parqlake.core.schema import assign_field_ids


def test_a_commit_makes_the_next_version_with_totals(lab: Lab) -> None:
    first = lab.change([id_file((1, 2), (3, 4)), id_file((5, 6))], summary={"x": [1, "é\0"]})
    assert (first.version, first.row_count, first.file_count, first.row_group_count) == (1, 30, 2, 3)
    assert (first.size_bytes, first.added_files, first.added_rows, first.removed_rows) == (316, 2, 30, 0)
    assert first.summary == {"x": [1, "é\0"]}
    old = lab.files(1)
    second = lab.change([id_file()], [old[0]], operation=Operation.OVERWRITE, data_change=False)
    assert (second.version, second.row_count, second.file_count, second.row_group_count) == (2, 20, 2, 2)
    assert (second.removed_files, second.removed_rows, second.size_bytes) == (1, 20, 216)
    with lab.catalog.read() as reader:
        assert reader.snapshot(lab.table_id, 1) == first
        assert reader.snapshot(lab.table_id, 2) == second
        assert reader.snapshots(lab.table_id) == [second, first]
        assert reader.snapshots(lab.table_id, limit=1) == [second]
        assert reader.snapshots(lab.table_id, after=1) == [second]
        assert reader.snapshot(lab.table_id, 3) is None
        assert reader.snapshot(lab.table_id, 0) is None
        assert reader.snapshot(lab.table_id, 10**30) is None
        assert reader.head(lab.table_id) == Head(lab.table_id, 2, 1, 4, 3)
        assert reader.heads() == {lab.table_id: reader.head(lab.table_id)}


def test_each_version_sees_its_own_files(lab: Lab) -> None:
    paths: list[set[str]] = [set()]
    for number in range(1, 13):
        live = lab.files(number - 1) if number > 1 else []
        gone = live[::3] if number % 3 == 0 else []
        lab.change([id_file(path=f"{number}-{i}", partition={"name": None}) for i in range(number % 4)], gone)
        paths.append(paths[-1] - {entry.path for entry in gone} | {f"{number}-{i}" for i in range(number % 4)})
    with lab.catalog.read() as reader:
        for version, expected in enumerate(paths):
            found = reader.files(lab.table_id, version)
            assert {entry.path for entry in found} == expected
            assert [entry.file_id for entry in found] == sorted(entry.file_id for entry in found)
            assert all(entry.added <= version < entry.removed for entry in found)
            some = [entry.file_id for entry in found[::2]]
            assert reader.files(lab.table_id, version, some) == found[::2]
        everything = reader.files_added(lab.table_id, after=0, until=12)
        assert len(everything) == sum(number % 4 for number in range(1, 13))
        for after in range(13):
            for until in range(after, 13):
                added = reader.files_added(lab.table_id, after=after, until=until)
                assert added == [entry for entry in everything if after < entry.added <= until]
                removed = reader.files_removed(lab.table_id, after=after, until=until)
                assert removed == [entry for entry in everything if after < entry.removed <= until]
        assert reader.files_removed(lab.table_id, after=0, until=LIVE) == [e for e in everything if e.removed < LIVE]
        assert reader.files(lab.table_id, 12, []) == []


def test_a_long_list_of_ids_finds_the_same_files(lab: Lab) -> None:
    lab.change([id_file() for _ in range(2_000)])
    everything = lab.files(1)
    lab.change(remove=everything[:100])
    with lab.catalog.read() as reader:
        wanted = [entry.file_id for entry in everything if entry.file_id % 7]
        assert len(wanted) > 1_500
        assert [e.file_id for e in reader.files(lab.table_id, 1, wanted)] == wanted
        now = reader.files(lab.table_id, 2, wanted)
        assert [e.file_id for e in now] == [i for i in wanted if i > everything[99].file_id]


def test_entries_come_back_as_they_were_written(lab: Lab) -> None:
    partition = {"name": "ä'\"\0\n", "other": None}
    lab.change([id_file((1, 2), (3, 4), path="a b/ü'\";--.parquet", partition=partition)])
    (entry,) = lab.files(1)
    assert (entry.path, entry.partition) == ("a b/ü'\";--.parquet", partition)
    assert (entry.size_bytes, entry.row_count, entry.row_group_count, entry.schema_id) == (208, 20, 2, 1)
    assert (entry.added, entry.removed) == (1, LIVE)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800"])
def test_a_path_that_no_database_can_hold_is_refused_everywhere(lab: Lab, path: str) -> None:
    with pytest.raises(InputError, match="path"):
        lab.change([id_file(path=path)])
    assert lab.change([id_file()]).version == 1


def test_a_new_schema_is_a_new_id(lab: Lab) -> None:
    wider = assign_field_ids(pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.float64())]))
    assert lab.change([id_file()]).schema_id == 1
    assert lab.change([id_file()], schema=wider).schema_id == 2
    assert lab.change([id_file()]).schema_id == 2
    with lab.catalog.read() as reader:
        for _ in range(2):
            assert reader.schema(lab.table_id, 1).equals(SCHEMA, check_metadata=True)
            assert reader.schema(lab.table_id, 2).equals(wider, check_metadata=True)
        assert [entry.schema_id for entry in reader.files(lab.table_id, 3)] == [1, 2, 2]
        assert reader.head(lab.table_id).schema_id == 2
        with pytest.raises(VersionNotFoundError, match="schema 3"):
            reader.schema(lab.table_id, 3)


def test_times_rise_with_versions_even_if_the_clock_steps_back(lab: Lab) -> None:
    steps = [0, 10, -3_600, -3_600, 10, 11, -(10**7), 12]
    made = [lab.change([id_file()], at=START + timedelta(seconds=step)) for step in steps]
    times = [snapshot.committed_at for snapshot in made]
    assert times == sorted(set(times))
    assert times[1] == START + timedelta(seconds=10)
    assert times[2] == times[1] + timedelta(microseconds=1)
    assert times[5] == START + timedelta(seconds=11)
    with lab.catalog.read() as reader:
        for snapshot in made:
            assert reader.snapshot_as_of(lab.table_id, snapshot.committed_at) == snapshot
        assert reader.snapshot_as_of(lab.table_id, times[0] - timedelta(microseconds=1)) is None
        assert reader.snapshot_as_of(lab.table_id, times[-1] + timedelta(days=365)) == made[-1]


def test_a_head_that_moved_on_is_a_conflict_and_changes_nothing(lab: Lab) -> None:
    with lab.catalog.read() as reader:
        stale = reader.head(lab.table_id)
    lab.change([id_file()])
    new = NewSnapshot(lab.table_id, stale, Operation.APPEND, True, [id_file()], [])
    with pytest.raises(ConflictError, match="at version 1, not at 0"), lab.catalog.write() as writer:
        writer.add_snapshot(new, txn_id="x", committed_at=START)
    assert len(lab.files(9)) == 1
    assert lab.change([id_file()]).version == 2


def test_removing_a_file_twice_is_a_conflict_and_changes_nothing(lab: Lab) -> None:
    lab.change([id_file(), id_file()])
    both = lab.files(1)
    lab.change(remove=both[:1])
    with pytest.raises(ConcurrentRemoveError, match="removed by another commit"):
        lab.change([id_file()], both)
    assert lab.files(2) == both[1:]
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 2
        assert reader.snapshots(lab.table_id, limit=1)[0].file_count == 1


def test_a_swallowed_conflict_cannot_be_committed(lab: Lab) -> None:
    lab.change([id_file()])
    (entry,) = lab.files(1)
    lab.change(remove=[entry])
    with pytest.raises(CatalogError, match="nothing of it was committed"), lab.catalog.write() as writer:
        base = writer.lock([lab.table_id])[lab.table_id]
        with pytest.raises(ConcurrentRemoveError):
            new = NewSnapshot(lab.table_id, base, Operation.DELETE, True, [], [entry])
            writer.add_snapshot(new, txn_id="x", committed_at=START)
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 2


def test_dropped_and_unknown_tables_take_no_commit(lab: Lab) -> None:
    lab.change([id_file()])
    with lab.catalog.write() as writer:
        base = writer.lock([lab.table_id])[lab.table_id]
        writer.drop_table(lab.table_id, START)
        assert writer.lock([lab.table_id, 999]) == {}
        assert writer.lock([]) == {}
    new = NewSnapshot(lab.table_id, base, Operation.APPEND, True, [id_file()], [])
    with pytest.raises(ConcurrentDropError), lab.catalog.write() as writer:
        writer.add_snapshot(new, txn_id="x", committed_at=START)
    new = NewSnapshot(999, base, Operation.APPEND, True, [id_file()], [])
    with pytest.raises(TableNotFoundError, match="999"), lab.catalog.write() as writer:
        writer.add_snapshot(new, txn_id="x", committed_at=START)
    with lab.catalog.read() as reader, pytest.raises(TableNotFoundError, match="999"):
        reader.head(999)


def test_several_tables_change_together_or_not_at_all(lab: Lab) -> None:
    other = lab.new_table()
    txn = lab.begin(None, lab.table_id, other.table_id)

    def write(*, fail: bool) -> None:
        with lab.catalog.write() as writer:
            heads = writer.lock([other.table_id, lab.table_id])
            assert list(heads) == sorted(heads)
            for table_id, head in heads.items():
                new = NewSnapshot(table_id, head, Operation.APPEND, True, [id_file()], [])
                writer.add_snapshot(new, txn_id=txn, committed_at=START)
            if fail:
                raise RuntimeError("on purpose")
            writer.finish_transaction(txn, versions=dict.fromkeys(heads, 1), at=START)

    with pytest.raises(RuntimeError, match="on purpose"):
        write(fail=True)
    with lab.catalog.read() as reader:
        assert [head.version for head in reader.heads().values()] == [0, 0]
        assert reader.segment_ids(lab.table_id, 9) == []
    write(fail=False)
    with lab.catalog.read() as reader:
        assert [head.version for head in reader.heads().values()] == [1, 1]
        found = reader.transaction(txn)
        assert found is not None
        assert found.versions == {lab.table_id: 1, other.table_id: 1}


def test_a_reader_sees_one_moment(lab: Lab, catalog: SqlCatalog) -> None:
    lab.change([id_file()])
    with catalog.read() as reader:
        before = reader.head(lab.table_id)
        lab.change([id_file()], lab.files(1))
        assert reader.head(lab.table_id) == before
        assert [entry.removed for entry in reader.files(lab.table_id, 1)] == [LIVE]
        assert len(reader.segment_ids(lab.table_id, 2)) == 1
        with catalog.read() as inner:
            assert inner.head(lab.table_id).version == 2
