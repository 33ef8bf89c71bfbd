"""Segments and statistics pages: a plan from the catalog equals one that looks at every row group."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from catalog_support import ID, NAME, SCHEMA, Lab, chunks, data_file, id_file, planned, statistics

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.catalogs.open import open_catalog
from parqlake.catalogs.segments import group_pieces, piece_of
from parqlake.core.errors import CatalogError, ConcurrentRemoveError, InputError, TableNotFoundError
from parqlake.core.model import ColumnStatistics, DataFile, Operation
from parqlake.core.pages import MAX_BYTES, MAX_KEY, ROW_GROUPS_PER_PAGE, Key, KeyRange, unknown_statistics

NUMBER, TEXT = ID, NAME
Truth = dict[tuple[str, int], dict[int, tuple[Key, Key] | None]]
"""Bounds of each row group's columns by (path, row group); None for one without values."""


def random_files(rng: random.Random, count: int, truth: Truth) -> list[DataFile]:
    """Files of random shapes: some columns unknown or missing, some row groups without any value."""
    files = []
    for _ in range(count):
        groups = rng.choice([0, 1, 1, 2, 5])
        numbers = [_number_bounds(rng) for _ in range(groups)]
        texts = [_text_bounds(rng) for _ in range(groups)]
        columns: list[ColumnStatistics] = []
        if rng.random() < 0.8:
            columns.append(statistics(NUMBER, [b or (MAX_KEY, 0) for b in numbers]) if groups else _none(NUMBER, False))
        else:
            numbers = [(0, MAX_KEY)] * groups
        if rng.random() < 0.8:
            columns.append(statistics(TEXT, [b or (MAX_BYTES, b"") for b in texts]) if groups else _none(TEXT, True))
        else:
            texts = [(b"", MAX_BYTES)] * groups
        rng.shuffle(columns)
        file = data_file(*columns, groups=groups)
        files.append(file)
        for group in range(groups):
            truth[file.path, group] = {NUMBER: numbers[group], TEXT: texts[group]}
    return files


def _none(column_id: int, as_bytes: bool) -> ColumnStatistics:
    return unknown_statistics(column_id, 0, as_bytes=as_bytes)


def _number_bounds(rng: random.Random) -> tuple[Key, Key] | None:
    if rng.random() < 0.1:
        return None
    low = rng.choice([0, 1, 2**63, rng.randrange(2**64), rng.randrange(2**63, 2**63 + 1000)])
    return low, min(low + rng.choice([0, 1, 50, 2**40, 2**64]), MAX_KEY)


def _text_bounds(rng: random.Random) -> tuple[Key, Key] | None:
    if rng.random() < 0.1:
        return None
    return tuple(sorted((_text(rng), _text(rng))))  # type: ignore[return-value]


def _text(rng: random.Random) -> bytes:
    stem = rng.choice([b"", b"customer-", b"customer-000000000000", b"\xff" * 9, b"a\0"])
    return (stem + bytes(rng.choice(b"\0a09\xff") for _ in range(rng.choice([0, 1, 9, 40]))))[:64]


def random_ranges(rng: random.Random) -> list[KeyRange]:
    ranges = []
    if rng.random() < 0.8:
        low = rng.choice([0, 2**63, rng.randrange(2**64), 2**63 + rng.randrange(1000)])
        ranges.append(KeyRange(NUMBER, low, min(low + rng.choice([0, 10, 2**41]), MAX_KEY)))
    if rng.random() < 0.8:
        low_text, high_text = sorted((_text(rng), _text(rng)))
        ranges.append(KeyRange(TEXT, low_text, rng.choice([low_text, high_text, MAX_BYTES])))
    return ranges


def must_read(truth: Truth, paths: set[str], ranges: Sequence[KeyRange]) -> set[tuple[str, int]]:
    """Row groups that really may hold a match, by a look at each one's bounds."""
    found = set()
    for (path, group), bounds in truth.items():
        if path in paths and all(_meets(bounds[range_.column_id], range_) for range_ in ranges):
            found.add((path, group))
    return found


def _meets(bounds: tuple[Key, Key] | None, range_: KeyRange) -> bool:
    return bounds is not None and bounds[0] <= range_.high and bounds[1] >= range_.low  # type: ignore[operator]


def check_plans(catalog: SqlCatalog, table_id: int, truth: Truth, versions: Sequence[set[str]], seed: int) -> None:
    """Plans of random ranges, cold and warm, leave out nothing and are far from reading everything."""
    rng = random.Random(seed)
    read = needed = everything = 0
    for _ in range(60):
        version = rng.randrange(len(versions))
        ranges = random_ranges(rng)
        expected = must_read(truth, versions[version], ranges)
        with catalog.read() as reader:
            plan = planned(reader, table_id, version, ranges)
        assert expected <= plan
        assert {path for path, _ in plan} <= versions[version]
        read, needed, everything = read + len(plan), needed + len(expected), everything + len(truth)
    assert needed <= read < everything / 2


@pytest.mark.parametrize("merge_at", [1_000, 7])
def test_plans_over_many_segments_equal_a_look_at_every_row_group(url: str, merge_at: int) -> None:
    rng = random.Random(merge_at)
    truth: Truth = {}
    versions: list[set[str]] = [set()]
    catalog = open_catalog(url, merge_segments_at=merge_at)
    try:
        lab = Lab(catalog)
        for version in range(1, 31):
            live = lab.files(version - 1) if version > 1 else []
            gone = rng.sample(live, len(live) // 4) if version % 5 == 0 else []
            files = random_files(rng, rng.choice([0, 1, 1, 3, 12]), truth)
            lab.change(files, gone)
            versions.append(versions[-1] - {entry.path for entry in gone} | {file.path for file in files})
        for seed in range(2):
            check_plans(catalog, lab.table_id, truth, versions, seed)
        with catalog.read() as reader:
            segments = reader.segment_ids(lab.table_id, 30)
            assert len(segments) <= (8 if merge_at == 7 else 30)
            together = np.concatenate([s.file_ids for s in reader.segments(lab.table_id, segments)])
            assert sorted(together.tolist()) == [e.file_id for e in reader.files_added(lab.table_id, after=0, until=30)]
    finally:
        catalog.close()
    # Another opener starts with nothing in memory.
    catalog = open_catalog(url, cache_bytes=0)
    try:
        check_plans(catalog, lab.table_id, truth, versions, 3)
    finally:
        catalog.close()


def test_page_bounds_alone_choose_segments(lab: Lab) -> None:
    for start in range(10):
        lab.change([id_file((start * 10, start * 10 + 9))])
    lab.change([data_file(statistics(NAME, [(b"a", b"b")]))])
    lab.change([data_file(statistics(ID, [(MAX_KEY, 0)], nulls=[10]))])
    with lab.catalog.read() as reader:
        everything = reader.segment_ids(lab.table_id, 12)
        assert len(everything) == 12
        unknown = everything[10]

        def chosen(low: int, high: int, version: int = 12) -> list[int]:
            return reader.segment_ids(lab.table_id, version, [KeyRange(ID, low, high)])

        assert chosen(35, 35) == [everything[3], unknown]
        assert chosen(39, 40) == [everything[3], everything[4], unknown]
        assert chosen(1000, 2000) == [unknown]
        assert chosen(35, 35, version=3) == []
        assert chosen(25, 25, version=3) == [everything[2]]
        both = [KeyRange(ID, 35, 35), KeyRange(NAME, b"c", b"d")]
        assert reader.segment_ids(lab.table_id, 12, both) == [everything[3]]
        many = [KeyRange(ID, 35, 35)] * 100
        assert reader.segment_ids(lab.table_id, 12, many) == [everything[3], unknown]


def test_segments_and_pages_come_back_as_written(lab: Lab) -> None:
    first = data_file(statistics(ID, [(1, 5), (2, 9)], nulls=[0, 3]), statistics(NAME, [(b"a", b"b")] * 2))
    second = data_file(statistics(ID, [(7, 7)]))
    lab.change([first, second])
    with lab.catalog.read() as reader:
        for _ in range(2):
            (segment_id,) = reader.segment_ids(lab.table_id, 1)
            (segment,) = reader.segments(lab.table_id, [segment_id])
            assert segment.file_ids.tolist() == [1, 2]
            assert segment.row_group_counts.tolist() == [2, 1]
            assert segment.rows.tolist() == [10, 10, 10]
            assert segment.sizes.tolist() == [100, 100, 100]
            assert segment.offsets.tolist() == [4, 104, 4]
            assert segment.rows.dtype == np.int64
            page = reader.pages(lab.table_id, ID, [segment_id])[segment_id]
            assert [page.bounds(i) for i in range(3)] == [(1, 5), (2, 9), (7, 7)]
            assert page.nulls is not None
            assert page.nulls.tolist() == [0, 3, 0]
            page = reader.pages(lab.table_id, NAME, [segment_id])[segment_id]
            assert page.bounds(2) == (None, None)
            assert page.nulls is not None
            assert page.nulls.tolist() == [0, 0, -1]
            assert reader.pages(lab.table_id, 77, [segment_id]) == {}
            assert reader.segments(lab.table_id, []) == []
            assert reader.pages(lab.table_id, ID, []) == {}
        with pytest.raises(CatalogError, match="segment"):
            reader.segments(lab.table_id, [segment_id, 99])


def test_segments_come_in_the_order_asked_for(lab: Lab) -> None:
    for _ in range(5):
        lab.change([id_file()])
    with lab.catalog.read() as reader:
        ids = reader.segment_ids(lab.table_id, 5)
        for order in (ids[::-1], [ids[2], ids[0], ids[2]], np.array(ids)):
            assert [s.segment_id for s in reader.segments(lab.table_id, order)] == list(order)


def test_big_numbers_survive(lab: Lab) -> None:
    base = data_file(statistics(ID, [(0, MAX_KEY), (2**63, 2**63 + 1)]))
    lab.change(
        [
            DataFile(
                base.path,
                2**50,
                2**40,
                np.array([2**39, 2**39]),
                np.array([2**33, 255]),
                np.array([4, 2**34]),
                {},
                base.statistics,
            )
        ]
    )
    with lab.catalog.read() as reader:
        (segment,) = reader.segments(lab.table_id, reader.segment_ids(lab.table_id, 1))
        assert segment.rows.tolist() == [2**39, 2**39]
        assert segment.sizes.tolist() == [2**33, 255]
        assert segment.offsets.tolist() == [4, 2**34]
        assert reader.files(lab.table_id, 1)[0].size_bytes == 2**50


def test_a_file_never_straddles_segments() -> None:
    limit = ROW_GROUPS_PER_PAGE
    sizes = [limit - 1, 1, 1, limit + 5, 0, 3, limit, limit // 2, limit // 2 + 1]
    pieces = [piece_of(data_file(groups=size), number) for number, size in enumerate(sizes)]
    groups = [[piece.file_ids[0] for piece in group] for group in group_pieces(pieces)]
    assert groups == [[0, 1], [2], [3], [4, 5], [6], [7], [8]]


def test_a_commit_of_more_than_a_page_makes_several_segments(lab: Lab) -> None:
    per_file = 1_000
    files = []
    for number in range(20):
        lows = np.arange(per_file, dtype=np.uint64) + np.uint64(number * per_file)
        nulls = np.zeros(per_file, dtype=np.int64)
        files.append(data_file(ColumnStatistics(ID, lows, lows, nulls)))
    snapshot = lab.change(files)
    assert (snapshot.row_group_count, snapshot.file_count) == (20_000, 20)
    with lab.catalog.read() as reader:
        ids = reader.segment_ids(lab.table_id, 1)
        assert [s.row_group_count for s in reader.segments(lab.table_id, ids)] == [16_000, 4_000]
        for wanted in (0, 15_999, 16_000, 19_999):
            plan = planned(reader, lab.table_id, 1, [KeyRange(ID, wanted, wanted)])
            assert plan == {(files[wanted // per_file].path, wanted % per_file)}


def test_statistics_that_do_not_fit_their_file_are_refused(lab: Lab) -> None:
    with pytest.raises(InputError, match="2 row groups"):
        lab.change([data_file(statistics(ID, [(1, 2)]), groups=2)])
    assert lab.files(1) == []


@pytest.mark.parametrize("merge_at", [1_000, 3])
def test_restored_files_have_new_ids_and_the_same_statistics(url: str, merge_at: int) -> None:
    rng = random.Random(5)
    truth: Truth = {}
    catalog = open_catalog(url, merge_segments_at=merge_at)
    try:
        lab = Lab(catalog)
        for part in chunks(random_files(rng, 30, truth), 6):
            lab.change(part)
        before = lab.files(5)
        lab.change(random_files(rng, 3, {}), before, operation=Operation.OVERWRITE)
        back = before[1::2]
        restored = lab.change((), lab.files(6), readd=back, operation=Operation.RESTORE)
        assert restored.row_count == sum(entry.row_count for entry in back)
        assert restored.row_group_count == sum(entry.row_group_count for entry in back)
        assert (restored.added_files, restored.removed_files) == (15, 3)
        now = lab.files(7)
        assert {entry.path for entry in now} == {entry.path for entry in back}
        assert {entry.file_id for entry in now}.isdisjoint(entry.file_id for entry in before)
        assert [
            (e.size_bytes, e.row_count, e.row_group_count, e.schema_id) for e in sorted(now, key=lambda e: e.path)
        ] == [(e.size_bytes, e.row_count, e.row_group_count, e.schema_id) for e in sorted(back, key=lambda e: e.path)]
        paths = {entry.path for entry in before}
        versions = [set(), paths, paths]
        with catalog.read() as reader:
            for seed in range(40):
                ranges = random_ranges(random.Random(seed))
                expected = must_read(truth, {entry.path for entry in back}, ranges)
                plan = planned(reader, lab.table_id, 7, ranges)
                assert expected <= plan <= {key for key in truth if key[0] in paths}
                assert must_read(truth, versions[1], ranges) <= planned(reader, lab.table_id, 5, ranges)
        # Twice around: bounds that were cut short once must not be cut again.
        lab.change((), now, operation=Operation.DELETE)
        lab.change((), (), readd=now, operation=Operation.RESTORE)
        with catalog.read() as reader:
            for seed in range(40):
                ranges = random_ranges(random.Random(seed))
                expected = must_read(truth, {entry.path for entry in back}, ranges)
                assert expected <= planned(reader, lab.table_id, 9, ranges)
    finally:
        catalog.close()


def test_restoring_what_is_gone_is_a_conflict(lab: Lab) -> None:
    lab.change([id_file()])
    (entry,) = lab.files(1)
    missing = type(entry)(99, "gone", 1, 1, 1, {}, 1, 1)
    with pytest.raises(ConcurrentRemoveError, match="'gone'"):
        lab.change(readd=[entry, missing])
    assert lab.files(2) == [entry]


def test_what_a_rolled_back_writer_saw_is_not_remembered(lab: Lab) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), lab.catalog.write() as writer:
        base = writer.lock([lab.table_id])[lab.table_id]
        new = {"table_id": lab.table_id, "base": base, "operation": Operation.APPEND, "data_change": True}
        from parqlake.core.ports import NewSnapshot

        writer.add_snapshot(
            NewSnapshot(**new, add=[id_file((1, 2))], remove=[]), txn_id="x", committed_at=lab.table.created_at
        )
        ids = writer.segment_ids(lab.table_id, 1)
        assert writer.pages(lab.table_id, ID, ids)[ids[0]].bounds(0) == (1, 2)
        assert writer.segments(lab.table_id, ids)[0].file_ids.tolist() == [1]
        raise RuntimeError("on purpose")
    lab.change([id_file((7, 9), (5, 6))])
    with lab.catalog.read() as reader:
        assert reader.segment_ids(lab.table_id, 1) == ids, "the id is free again"
        assert reader.pages(lab.table_id, ID, ids)[ids[0]].bounds(0) == (7, 9)
        assert reader.segments(lab.table_id, ids)[0].row_group_counts.tolist() == [2]


@pytest.mark.parametrize("known", ["their ids", "what is in them", "their statistics"])
def test_segments_that_were_merged_away_are_found_again(url: str, known: str) -> None:
    """A catalog that remembers which segments there were, but not what was in them, must not miss files."""
    mine, theirs = open_catalog(url), open_catalog(url, merge_segments_at=5)
    try:
        lab = Lab(theirs)
        for start in range(4):
            lab.change([id_file((start * 10, start * 10 + 9))])
        with mine.read() as reader:
            before = reader.segment_ids(lab.table_id, 4)
            assert len(before) == 4
            if known == "what is in them":
                assert len(reader.segments(lab.table_id, before)) == 4
            elif known == "their statistics":
                assert planned(reader, lab.table_id, 4, [KeyRange(ID, 15, 15)])
        for start in range(4, 8):
            lab.change([id_file((start * 10, start * 10 + 9))])
        with mine.read() as reader, theirs.read() as fresh:
            for key in range(0, 40, 5):
                ranges = [KeyRange(ID, key, key)]
                wanted = planned(fresh, lab.table_id, 4, ranges)
                assert len(wanted) == 1
                assert planned(reader, lab.table_id, 4, ranges) == wanted
            assert len(planned(reader, lab.table_id, 8, [])) == 8
            assert planned(reader, lab.table_id, 8, [KeyRange(ID, 75, 75)])
    finally:
        mine.close()
        theirs.close()


def test_the_newest_version_comes_with_its_schema_also_after_a_failed_transaction(lab: Lab) -> None:
    assert lab.catalog.newest(lab.table_id)[0].version == 0
    lab.change([id_file((0, 9))])
    with pytest.raises(CatalogError), lab.catalog.write() as writer:
        writer._session.change("UPDATE no_such_table SET x = 1")
    for _ in range(3):
        head, schema = lab.catalog.newest(lab.table_id)
        assert (head.version, head.live) == (1, True)
        assert schema.equals(SCHEMA, check_metadata=True)
    with pytest.raises(TableNotFoundError, match="999"):
        lab.catalog.newest(999)
    assert lab.catalog.newest(lab.table_id)[0].version == 1
