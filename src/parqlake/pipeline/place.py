"""What a pipeline remembers, and where in the catalog that is: records, committed with what they are about."""

from __future__ import annotations

from dataclasses import dataclass

from parqlake.core.runs import RUNS, RunRecord, RunStatus
from parqlake.pipeline.report import RunReport
from parqlake.pipeline.windows import Watermark
from parqlake.table.lake import Lake


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pipeline keeps what it has to remember."""

    lake: Lake
    pipeline: str

    @property
    def scope(self) -> str:
        """Of the record that every run replaces."""
        return f"pipeline/{self.pipeline}"

    @property
    def watermarks(self) -> str:
        """Of how far cursors and changes were taken."""
        return f"{self.scope}/watermarks"

    def files(self, step: str) -> str:
        """Of the files that a step has taken."""
        return f"{self.scope}/files/{step}"

    def watermark(self, step: str) -> Watermark | None:
        """How far the cursor of a step has come."""
        found = self.lake.record(self.watermarks, f"cursor/{step}")
        return None if found is None else Watermark.from_dict(found.value)

    def version(self, step: str, table: str) -> int:
        """Up to which version a step has taken the changes of a table; 0 if another one has its name by now."""
        found = self.lake.record(self.watermarks, f"changes/{step}/{table}")
        if found is None or found.value.get("table") not in (None, self.lake.table(table).info.uuid):
            return 0
        return int(found.value["version"])

    def report(self, run_id: str) -> RunReport | None:
        """What the run of that id came to, if it succeeded."""
        found = self.lake.record(f"{RUNS}{self.pipeline}", run_id)
        if found is None or found.value.get("status") != RunStatus.SUCCEEDED:
            return None
        return RunReport.of(RunRecord.from_dict(found.value))
