"""Conflicts: may a commit that was prepared on an older version still go ahead on the newest one?

The catalog's heads are locked while this is asked, so the answer holds until the commit is done. Blind appends always
go ahead. What was read, or looked for and not found, must be as it was; what is replaced must still be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from parqlake.core.errors import (
    ConcurrentAppendError,
    ConcurrentRemoveError,
    ConcurrentSchemaChangeError,
    ConflictError,
)
from parqlake.core.model import FileEntry
from parqlake.core.predicates.tree import Predicate


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What an operation relied on: predicates that it read by, and files whose rows it carried over."""

    predicates: tuple[Predicate, ...] = ()
    """Bound. `TRUE` stands for the whole table."""
    file_ids: frozenset[int] = frozenset()

    def with_predicate(self, predicate: Predicate) -> ReadSet:
        """The same, and what this predicate selects."""
        return ReadSet((*self.predicates, predicate), self.file_ids)


@dataclass(frozen=True, slots=True)
class Intent:
    """What a commit wants to do to one table, as far as others can be in its way."""

    table: str
    base_version: int
    schema_id: int
    writes: bool
    reads: ReadSet = field(default_factory=ReadSet)
    removes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Changes:
    """What others committed to the table since the intent's base version."""

    head_version: int
    schema_id: int
    added: Sequence[FileEntry]
    """Files added by commits that changed rows."""
    removed: Sequence[FileEntry]
    """Files removed by commits that changed rows."""
    removed_ids: frozenset[int]
    """Ids of all removed files, also of those that compaction replaced."""


MayMatch = Callable[[Predicate, Sequence[FileEntry]], Sequence[FileEntry]]
"""Those of the files that may hold a row for which the predicate is TRUE."""


def check(intent: Intent, changes: Changes, may_match: MayMatch) -> None:
    """Raises the `ConflictError` that says who was in the way, or returns: the commit may go ahead.

    Args:
        intent: the commit that wants to go ahead.
        changes: what happened since its base version.
        may_match: asks statistics, so that commits to other partitions or key ranges are no conflict.
    """
    if changes.head_version == intent.base_version:
        return
    between = f"between versions {intent.base_version} and {changes.head_version} of {intent.table}"
    if intent.writes and changes.schema_id != intent.schema_id:
        raise ConcurrentSchemaChangeError(
            f"the schema changed {between}; open the table again and repeat the operation"
        )
    gone = (intent.removes | intent.reads.file_ids) & changes.removed_ids
    if gone:
        raise ConcurrentRemoveError(
            f"{len(gone)} file(s) that this operation read or replaces were removed {between}; repeat the operation"
        )
    for predicate in intent.reads.predicates:
        _check_predicate(predicate, changes, may_match, between)


def _check_predicate(predicate: Predicate, changes: Changes, may_match: MayMatch, between: str) -> None:
    cases: tuple[tuple[Sequence[FileEntry], type[ConflictError], str], ...] = (
        (changes.added, ConcurrentAppendError, "added"),
        (changes.removed, ConcurrentRemoveError, "removed"),
    )
    for files, error, verb in cases:
        met = may_match(predicate, files) if files else ()
        if met:
            raise error(
                f"rows that this operation looked for were {verb} {between} (file {met[0].path}); repeat the operation"
            )
