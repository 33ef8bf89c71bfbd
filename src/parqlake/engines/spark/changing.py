"""Changing rows on Spark's executors: as tasks over files, with the same arithmetic as on one machine."""

from __future__ import annotations

from dataclasses import dataclass

from parqlake.core.model import DataFile
from parqlake.core.ports import ReadPlan, WriteSpec
from parqlake.core.updating import RowChange
from parqlake.engines.arrow import PyArrowEngine
from parqlake.engines.spark.tasks import RewriteTask


@dataclass(frozen=True, slots=True)
class ChangeTask(RewriteTask):
    """Rewrites the groups of files whose numbers one Spark partition holds, with their rows changed."""

    change: RowChange

    def _rewritten(self, part: ReadPlan, spec: WriteSpec) -> list[DataFile]:
        return PyArrowEngine(streams=1).rewrite_changed(part, self.change, spec, self.store)
