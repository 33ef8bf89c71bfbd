"""What sources give, when a step is left out, and what is told of it all to lineage servers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from parqlake.core.lineage import LineageStep, trace
from parqlake.core.open_lineage import end_event
from parqlake.core.runs import RunInput, RunOutput, RunRecord, RunStatus
from parqlake.pipeline import changes, new_files, table
from parqlake.pipeline.landing import _base_path
from parqlake.pipeline.reading import Taken
from parqlake.pipeline.report import on_record
from parqlake.pipeline.steps import lacking, make_step

AT = datetime(2026, 11, 16, tzinfo=UTC)


def run(number: int, inputs: tuple[RunInput, ...], *outputs: str) -> RunRecord:
    made = tuple(RunOutput(name) for name in outputs)
    about: dict[str, Any] = {"pipeline": "p", "status": RunStatus.SUCCEEDED, "started_at": AT}
    return RunRecord(run_id=str(number), inputs=inputs, outputs=made, **about)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ({"a": None, "b": None, "dim": 1}, "nothing new"),
        ({"a": 1, "b": None, "dim": 1}, "nothing new for b, whose columns are not known; give it a schema"),
        ({"a": None, "b": 1, "dim": 1}, ""),
        ({"a": 1, "b": 1, "dim": None}, "t.dim is not there yet"),
        ({"a": 1, "b": 1, "dim": 1}, ""),
    ],
)
def test_a_step_is_left_out_if_nothing_is_new_and_never_gets_nothing_for_rows(rows: dict[str, Any], why: str) -> None:
    sources = {"a": new_files("landing"), "b": changes("t.b"), "dim": table("t.dim")}
    step = make_step(lambda a, b, dim: (a, b, dim), target="t.x", name="x", source=sources)
    taken = {name: Taken(frame, (RunInput(f"t.{name}"),)) for name, frame in rows.items()}
    taken["a"] = Taken(rows["a"], (), empty=lambda: "no rows")
    assert lacking(step, taken) == why
    if not why:
        assert [one.frame for one in taken.values()] == [frame or "no rows" for frame in rows.values()]


def test_folders_that_name_columns_are_told_to_spark_if_all_files_agree() -> None:
    assert _base_path("/in", ["/in/day=1/a.json", "/in/day=2/b.json"]) == {"basePath": "/in"}
    assert _base_path("s3://b/day=1", ["s3://b/day=1/a.json"]) == {}
    assert _base_path("/in", ["/in/day=1/a.json", "/in/b.json"]) == {}
    assert _base_path("/in", ["/in/eu/day=1/a.json", "/in/us/day=1/a.json"]) == {}


def test_errors_show_no_rows_where_that_is_not_wanted() -> None:
    error = ValueError("ann owes 7")
    assert on_record(error, samples=True) == "ValueError: ann owes 7"
    assert on_record(error, samples=False) == "ValueError"


@pytest.mark.parametrize(
    ("address", "namespace", "name"),
    [
        ("jdbc:sqlserver://h:1433;databaseName=x t", "sqlserver://h:1433", "/"),
        ("jdbc:postgresql://db:5432/shop orders", "postgresql://db:5432", "shop orders"),
        ("s3://bucket/orders", "s3://bucket", "orders"),
        ("http://[::1]:80/x", "http://[::1]:80", "x"),
        ("landing/orders", "file", "landing/orders"),
    ],
)
def test_addresses_of_all_kinds_become_names_for_lineage(address: str, namespace: str, name: str) -> None:
    (read,) = end_event(run(1, (RunInput(address),), "t.x"), namespace="lake")["inputs"]
    assert (read["namespace"], read["name"]) == (namespace, name)


def test_lineage_of_many_tables_that_meet_again_and_again_is_found_at_once() -> None:
    layers = [tuple(RunInput(f"t.l{layer}_{n}", version=1) for n in range(4)) for layer in range(14)]
    runs = [run(n, read, *(f"t.l{n + 1}_{m}" for m in range(4))) for n, read in enumerate(layers)]
    began = time.process_time()
    found: tuple[LineageStep, ...] = trace("t.l14_0", runs).upstream
    assert time.process_time() - began < 5  # 4^14 steps would take hours
    for depth in range(14):
        assert [step.name for step in found] == [f"t.l{13 - depth}_{n}" for n in range(4)]
        found = found[depth % 4].steps
    circle = [run(1, (RunInput("t.a", version=1),), "t.b"), run(2, (RunInput("t.b", version=1),), "t.a")]
    (first,) = trace("t.a", circle).upstream
    assert (first.name, first.steps[0].name, first.steps[0].steps) == ("t.b", "t.a", ())
