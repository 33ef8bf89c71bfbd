"""The PyArrow engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parqlake.core.model import DataFile
from parqlake.core.ports import ReadPlan, Store, WriteSpec
from parqlake.core.schema import canonical_schema

if TYPE_CHECKING:
    from parqlake.core.changes import ChangePlan
    from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
    from parqlake.core.merging import MergeOutcome, MergeRule, MergeTarget
    from parqlake.core.updating import RowChange


class PyArrowEngine:
    """Writes and reads with PyArrow alone: in this process, streaming, memory bounded.

    Holds every type that tables hold. Page checksums are written, and verified on reading.
    """

    def __init__(self, *, spill_folder: str | None = None, streams: int | None = None) -> None:
        """Opens nothing.

        Args:
            spill_folder: where a partitioned write puts rows aside; by default the system's temporary folder.
            streams: how many streams of files are rewritten at a time, by two threads each; by default as many as
                there are pairs of cores, up to two.
        """
        self._spill_folder = spill_folder
        self._streams = streams

    def __repr__(self) -> str:
        return "PyArrowEngine()"

    @property
    def name(self) -> str:
        """How users choose it."""
        return "pyarrow"

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises `UnsupportedTypeError` for what tables cannot hold; this engine holds all else."""
        canonical_schema(schema)

    def write(self, data: pa.RecordBatchReader, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Writes the rows to final files and describes them; durable on return.

        Without rows there are no files. On an exception finished files stay where they are, for the caller
        to decide about, and those that were never finished are deleted.
        """
        from parqlake.engines.arrow.writing import write_stream

        return write_stream(data, spec, store, spill_folder=self._spill_folder)

    def rewrite(self, plan: ReadPlan, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads what the plan names and writes it again by the spec, in a few streams at a time."""
        return self._write_again(plan, None, spec, store)

    def rewrite_changed(self, plan: ReadPlan, change: RowChange, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads what the plan names, applies the change, and writes the rows, in a few streams at a time."""
        return self._write_again(plan, change, spec, store)

    def rewrite_groups(
        self,
        groups: Sequence[RewriteGroup],
        spec: WriteSpec,
        store: Store,
        *,
        order: RowOrder | None,
        memory_bytes: int,
    ) -> list[list[DataFile]]:
        """Rewrites groups of files, one after the other; see `parqlake.core.maintenance.rewriting`."""
        from parqlake.engines.arrow.rewrite_table import rewrite_groups  # who does no maintenance need not load it

        return rewrite_groups(groups, spec, store, order=order, memory_bytes=memory_bytes)

    def merge(
        self,
        source: pa.RecordBatchReader | pa.Table,
        target: MergeTarget,
        rule: MergeRule,
        *,
        memory_bytes: int,
        stacklevel: int = 1,
    ) -> MergeOutcome:
        """Merges the source into the target; see `parqlake.engines.arrow.merging.merge`."""
        from parqlake.engines.arrow.merging import merge  # who does not merge need not load it

        return merge(
            source,
            target,
            rule,
            memory_bytes=memory_bytes,
            spill_folder=self._spill_folder,
            stacklevel=stacklevel + 1,
        )

    def dataset(self, plan: ReadPlan, store: Store) -> Any:
        """A `pyarrow.dataset.FileSystemDataset` of exactly the planned row groups, unfiltered within them."""
        from parqlake.engines.arrow.planned_dataset import plan_dataset  # pyarrow.dataset loads pandas: 0.5 s

        return plan_dataset(plan, store)

    def batches(self, plan: ReadPlan, store: Store) -> pa.RecordBatchReader:
        """The rows, filtered, projected, limited, in the plan's order, as a stream."""
        from parqlake.engines.arrow.reader import plan_batches  # pyarrow.dataset loads pandas: 0.5 s

        return plan_batches(plan, store)

    def change_batches(self, plan: ChangePlan, store: Store, *, memory_bytes: int) -> pa.RecordBatchReader:
        """The changes between two versions, as a stream; see `parqlake.engines.arrow.changes`."""
        from parqlake.engines.arrow.changes import change_batches  # who asks for no changes need not load it

        return change_batches(plan, store, memory_bytes=memory_bytes, spill_folder=self._spill_folder)

    def _write_again(self, plan: ReadPlan, change: RowChange | None, spec: WriteSpec, store: Store) -> list[DataFile]:
        from parqlake.engines.arrow.copy_on_write import write_again  # who only appends need not load it

        def write(rows: pa.RecordBatchReader, own: WriteSpec) -> list[DataFile]:
            return self.write(rows, own, store)

        return write_again(plan, spec, store, write, change=change, streams=self._streams)
