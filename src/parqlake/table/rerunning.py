"""Commits that are worked out again when another commit was in the way."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from parqlake.core.errors import ConcurrentAppendError, ConcurrentRemoveError, ConflictError
from parqlake.core.model import DataFile
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext
from parqlake.table.target import Target
from parqlake.table.unit import Unit

MAX_RERUNS = 20
"""How often an operation that met another commit on the same rows is worked out again."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5
ROW_CONFLICTS: tuple[type[ConflictError], ...] = (ConcurrentAppendError, ConcurrentRemoveError)
"""Others added or removed rows that matter here."""


def commit_rerunning(
    context: LakeContext,
    unit: Unit,
    target: Target,
    attempt: Callable[[Target], TableChange],
    *,
    conflicts: tuple[type[ConflictError], ...] = ROW_CONFLICTS,
    kept: Sequence[DataFile] = (),
) -> None:
    """Commits what `attempt` makes of the table; after a conflict what it makes of the newest version, and so on.

    Pauses grow and are jittered, so that writers of the same rows do not march in step.

    Args:
        context: of the lake.
        unit: under which files are written.
        target: the table as the first attempt sees it.
        attempt: works the change out; called again with the table as it has become.
        conflicts: what is worth another attempt.
        kept: added files that all attempts share; those of a failed attempt alone are deleted.

    Raises:
        ConflictError: others were in the way each time, or in a way that another attempt does not mend.
    """
    shared = {file.path for file in kept}
    for number in range(1, MAX_RERUNS + 1):
        change = attempt(target)
        try:
            unit.commit([change])
            return
        except conflicts:
            if number == MAX_RERUNS:
                raise
        unit.discard(target.info.location, [file for file in change.add if file.path not in shared])
        longest = min(_FIRST_PAUSE * 2**number, _LONGEST_PAUSE)
        time.sleep(random.uniform(longest / 2, longest))  # noqa: S311 (jitter, not cryptography)
        target = target.newest(context)
