"""A pipeline on Dagster: a partition for each day, whose key names the run, so that a repeat does its work once."""

from __future__ import annotations

from typing import Any

from parqlake.pipeline.loading import CONFLICT, OK, run_file

PIPELINE = "/srv/shop/pipeline.toml"


def take_in(context: Any) -> None:
    """Runs the pipeline for the partition's day."""
    from dagster import Failure, RetryRequested

    outcome = run_file(PIPELINE, run_id=context.partition_key)
    context.log.info(outcome.text)
    if outcome.exit_code == CONFLICT:
        raise RetryRequested(max_retries=3, seconds_to_wait=60)
    if outcome.exit_code != OK:
        raise Failure(outcome.text, allow_retries=False) from outcome.error


def make_definitions() -> Any:
    """The job, and the schedule that starts it every night."""
    from dagster import DailyPartitionsDefinition, Definitions, build_schedule_from_partitioned_job, job, op

    days = DailyPartitionsDefinition(start_date="2026-11-01")

    @job(partitions_def=days)
    def shop() -> None:
        op(name="take_in")(take_in)()

    return Definitions(jobs=[shop], schedules=[build_schedule_from_partitioned_job(shop, hour_of_day=2)])


try:
    definitions = make_definitions()
except ImportError:  # where this file is only read, and Dagster is not installed
    definitions = None
