"""Conflicts: one test for each way in which another commit may or may not be in the way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from parqlake.core.conflicts import Changes, Intent, ReadSet, check
from parqlake.core.errors import ConcurrentAppendError, ConcurrentRemoveError, ConcurrentSchemaChangeError
from parqlake.core.model import FileEntry
from parqlake.core.predicates.tree import TRUE, Column, Compare, CompareOp, Literal, Predicate

LOW = Compare(CompareOp.LT, Column(("x",)), Literal(10))


def entry(file_id: int, added: int = 4, removed: int = 2**63 - 1) -> FileEntry:
    return FileEntry(file_id, f"part-{file_id}.parquet", 1, 1, 1, {}, 1, added, removed)


def changes(
    *, added: Sequence[int] = (), removed: Sequence[int] = (), quiet: Sequence[int] = (), schema_id: int = 1
) -> Changes:
    return Changes(
        head_version=5,
        schema_id=schema_id,
        added=[entry(i) for i in added],
        removed=[entry(i, 1, 4) for i in removed],
        removed_ids=frozenset((*removed, *quiet)),
    )


def even_files_match(_predicate: Predicate, files: Sequence[FileEntry]) -> Sequence[FileEntry]:
    return [file for file in files if file.file_id % 2 == 0]


def intent(*, reads: ReadSet | None = None, removes: Sequence[int] = (), base: int = 3, writes: bool = True) -> Intent:
    return Intent("a.b", base, 1, writes, reads or ReadSet(), frozenset(removes))


def test_nothing_happened_meanwhile() -> None:
    check(intent(base=5, removes=[1]), changes(removed=[1]), even_files_match)


def test_a_blind_append_goes_ahead_whatever_happened() -> None:
    check(intent(), changes(added=[2], removed=[4], quiet=[6]), even_files_match)


def test_a_schema_change_stops_a_write_but_not_a_pure_removal() -> None:
    with pytest.raises(ConcurrentSchemaChangeError, match=r"schema changed between versions 3 and 5 of a\.b"):
        check(intent(), changes(schema_id=2), even_files_match)
    check(intent(writes=False, removes=[9]), changes(schema_id=2), even_files_match)


def test_a_file_that_is_replaced_must_still_be_there() -> None:
    with pytest.raises(ConcurrentRemoveError, match="1 file"):
        check(intent(removes=[7, 8]), changes(removed=[7]), even_files_match)


def test_a_file_that_compaction_replaced_is_gone_as_well() -> None:
    with pytest.raises(ConcurrentRemoveError):
        check(intent(removes=[7]), changes(quiet=[7]), even_files_match)


def test_rows_that_were_carried_over_must_still_be_there() -> None:
    with pytest.raises(ConcurrentRemoveError):
        check(intent(reads=ReadSet((), frozenset({7}))), changes(removed=[7]), even_files_match)


def test_what_was_looked_for_and_not_found_must_not_have_come() -> None:
    with pytest.raises(ConcurrentAppendError, match=r"part-2\.parquet"):
        check(intent(reads=ReadSet((LOW,))), changes(added=[1, 2]), even_files_match)


def test_what_was_found_must_not_have_gone() -> None:
    with pytest.raises(ConcurrentRemoveError):
        check(intent(reads=ReadSet((LOW,))), changes(removed=[4]), even_files_match)


def test_changes_elsewhere_are_no_conflict() -> None:
    check(intent(reads=ReadSet((LOW,)), removes=[10]), changes(added=[1, 3], removed=[5]), even_files_match)


def test_compaction_does_not_disturb_readers() -> None:
    check(intent(reads=ReadSet((TRUE,))), changes(quiet=[2, 4]), lambda _p, files: files)
