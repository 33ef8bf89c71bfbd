"""Pipelines on Spark: rows come in, are checked, and are committed together with everything that has to be remembered.

Example:
    >>> from parqlake.pipeline import Pipeline, cursor, expect, maintain, new_files
"""

from parqlake.pipeline.expectations import expect, fresh, references, row_count, unique
from parqlake.pipeline.loading import load, run_file
from parqlake.pipeline.maintain import maintain
from parqlake.pipeline.pipeline import Pipeline, PipelinePlan
from parqlake.pipeline.report import Run, RunReport
from parqlake.pipeline.sources import changes, files, jdbc, new_files, table
from parqlake.pipeline.windows import cursor

__all__ = [
    "Pipeline",
    "PipelinePlan",
    "Run",
    "RunReport",
    "changes",
    "cursor",
    "expect",
    "files",
    "fresh",
    "jdbc",
    "load",
    "maintain",
    "new_files",
    "references",
    "row_count",
    "run_file",
    "table",
    "unique",
]
