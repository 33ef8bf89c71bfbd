"""What an engine offers that can merge."""

from __future__ import annotations

from typing import Any, Protocol

from parqlake.core.merging.model import MergeOutcome, MergeRule, MergeTarget
from parqlake.core.ports import Engine


class MergingEngine(Engine, Protocol):
    """An engine that merges rows into files; decides which rows, publishes nothing."""

    def merge(
        self, source: Any, target: MergeTarget, rule: MergeRule, *, memory_bytes: int, stacklevel: int = 1
    ) -> MergeOutcome:
        """Writes new files, and says which files they replace; until somebody publishes that, nothing has changed.

        Args:
            source: a `pyarrow.RecordBatchReader` or a table of the target's columns, or a data frame of the engine's
                own kind.
            target: its files, and how new ones are made.
            rule: how rows are matched and what is done with them.
            memory_bytes: how much to hold in memory.
            stacklevel: whom a warning of duplicate keys points at: 1 is the caller.

        Raises:
            InputError: the call is wrong; nothing was written.
        """
