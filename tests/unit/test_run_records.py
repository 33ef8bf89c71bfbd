"""Records of runs: JSON and back, and the events that lineage servers take."""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console

from parqlake.core.errors import DataCorruptionError
from parqlake.core.lineage import trace
from parqlake.core.open_lineage import end_event, start_event
from parqlake.core.runs import RunInput, RunOutput, RunRecord, RunStatus

RUN = RunRecord(
    run_id="2026-11-15",
    pipeline="orders",
    status=RunStatus.SUCCEEDED,
    started_at=datetime(2026, 11, 15, 3, tzinfo=UTC),
    finished_at=datetime(2026, 11, 15, 4, tzinfo=UTC),
    inputs=(
        RunInput("bronze.orders", version=7, from_version=5, detail="changes"),
        RunInput("s3://user:secret@bucket:9000/in/orders?token=secret"),
        RunInput("landing/orders"),
    ),
    outputs=(
        RunOutput("silver.orders", 3, "merge", 10, 4, {"inserted": 6, "updated": 4}, inputs=("bronze.orders",)),
        RunOutput("silver.bad"),
    ),
    rejects={"positive": 2},
    durations={"read": 1.5, "commit": 0.1},
    spark_application_id="local-1",
    error=None,
    report={"steps": []},
)


def test_a_run_survives_json_and_newer_writers() -> None:
    told = json.loads(json.dumps(RUN.to_dict()))
    assert RunRecord.from_dict(told) == RUN
    newer = {**told, "more": 1, "inputs": [{**read, "more": 1} for read in told["inputs"]]}
    assert RunRecord.from_dict(newer) == RUN
    assert RUN.seconds == 3600
    for wrong in ({}, {**told, "status": "odd"}, {**told, "started_at": "noon"}):
        with pytest.raises(DataCorruptionError, match="no record of a run"):
            RunRecord.from_dict(wrong)


def test_events_tell_what_was_read_and_made_and_no_secret() -> None:
    start, end = start_event(RUN, namespace="file:///lake"), end_event(RUN, namespace="file:///lake")
    assert (start["eventType"], start["eventTime"]) == ("START", "2026-11-15T03:00:00+00:00")
    assert (end["eventType"], end["eventTime"]) == ("COMPLETE", "2026-11-15T04:00:00+00:00")
    assert start["run"]["runId"] == end["run"]["runId"] == str(uuid.UUID(end["run"]["runId"]))
    assert start["run"]["runId"] != start_event(replace(RUN, run_id="2"), namespace="file:///lake")["run"]["runId"]
    assert end["job"]["name"] == "orders"
    assert [(read["namespace"], read["name"]) for read in end["inputs"]] == [
        ("file:///lake", "bronze.orders"),
        ("s3://bucket:9000", "in/orders"),
        ("file", "landing/orders"),
    ]
    assert end["inputs"][0]["facets"]["version"]["datasetVersion"] == "7"
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 10
    assert "errorMessage" not in end["run"]["facets"]
    failed = end_event(replace(RUN, status=RunStatus.FAILED, error="no"), namespace="n")
    assert (failed["eventType"], failed["run"]["facets"]["errorMessage"]["message"]) == ("FAIL", "no")
    assert "secret" not in json.dumps([start, end, failed])


def test_lineage_goes_by_the_inputs_of_each_output_and_by_what_succeeded() -> None:
    assert [step.name for step in trace("silver.orders", [RUN]).upstream] == ["bronze.orders"]
    assert [step.name for step in trace("bronze.orders", [RUN]).downstream] == ["silver.bad", "silver.orders"]
    assert trace("silver.orders", [replace(RUN, status=RunStatus.FAILED)]).upstream == ()
    shown = io.StringIO()
    Console(file=shown, width=120).print(trace("silver.orders", [RUN]))
    assert "bronze.orders @ version 7" in shown.getvalue()
