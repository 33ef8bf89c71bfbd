"""What must not be lost: rows that are seen again, come twice, have no key, or meet a table that changed meanwhile."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline_support import DAY, found

import parqlake
from parqlake.core.errors import ConflictError, ConstraintError, InvalidOptionError, QualityError
from parqlake.pipeline import Pipeline, changes, cursor, expect, fresh, maintain, new_files, row_count, table, unique
from parqlake.table.table import Table

IDS = pa.schema([("id", pa.int64())])


def hours(number: int) -> datetime:
    return DAY + timedelta(hours=number)


@pytest.mark.slow
def test_no_row_is_lost_or_taken_twice(warehouse: parqlake.Lake, spark: Any, tmp_path: Path) -> None:
    p = Pipeline("traps", lake=warehouse, spark=spark)
    landing = tmp_path / "landing/day=2026-11-01"
    landing.mkdir(parents=True)
    (landing / "1.json").write_text('{"id": 1}')
    warehouse.create_table("t.dim", pa.schema([("id", pa.int64()), ("v", pa.string())])).append(
        pa.table({"id": [1], "v": ["keep"]})
    )
    source = warehouse.create_table("t.source", IDS)
    for number in (1, 2, 3):
        source.append(pa.table({"id": [number]}))
    states = [(1, "a", hours(0)), (1, "b", hours(1)), (1, "b", hours(2)), (1, "c", hours(3))]

    @p.step(
        target="t.keyed",
        mode="merge",
        keys=["id"],
        dedupe="at desc",
        incremental=cursor("at", lookback="2h"),
        expect=[
            expect("has_id", "id is not null").quarantine("t.bad"),
            expect("good", "v <> 'bad'").quarantine("t.bad"),
        ],
    )
    def keyed(spark: Any) -> Any:
        rows = [(None, "a", "02"), (None, "b", "02"), (None, "c", "03"), (1, "old", "01"), (1, "good", "02")]
        rows += [(1, "bad", "03"), (2, "bad", "02"), (3, "x", "?")]
        frame = spark.createDataFrame(rows, "id bigint, v string, hour string")
        return frame.selectExpr("id", "v", "concat('2026-11-01T', hour, ':00:00Z') as at")

    p.step(target="t.copies", name="copies", source=changes("t.keyed"))(lambda batch: batch.select("id"))
    p.step(target="t.copied", name="copied", source=table("t.copies"), mode="overwrite")(lambda batch: batch)
    p.step(target="t.moved", name="moved", source=changes("t.source"))(lambda batch: batch.select("id"))

    @p.step(target="t.dim", mode="merge", keys=["id"], schema_mode="merge")
    def dim() -> Any:
        return pa.table({"id": [1, 2]})

    @p.step(target="t.states", mode="scd2", keys=["id"], effective="at")
    def past(spark: Any) -> Any:
        return spark.createDataFrame(states, "id bigint, v string, at timestamp")

    @p.step(
        target="t.joined",
        source={
            "batch": new_files(str(tmp_path / "landing"), format="json", schema="id bigint"),
            "dim": table("t.dim"),
        },
        expect=[row_count(1).warn(), fresh("day", "1s").warn(), unique("id")],
    )
    def joined(batch: Any, dim: Any) -> Any:
        return batch.join(dim, "id")

    told = {step.name: step for step in p.run(run_id="1").report.steps}
    assert (told["copies"].left_out, told["copied"].left_out) == ("nothing new", "t.copies is not there yet")
    assert found(warehouse, "t.keyed", "id", "v") == [(1, "good")]
    assert dict(told["keyed"].counts) | {"updated": 0, "deleted": 0} == {
        "inserted": 1,
        "updated": 0,
        "deleted": 0,
        "dropped": 0,
        "quarantined": 5,
        "duplicates": 1,
    }
    bad = [(1, "bad"), (2, "bad"), (None, "a"), (None, "b"), (None, "c")]
    assert found(warehouse, "t.bad", "id", "v") == bad
    assert found(warehouse, "t.dim", "id", "v") == [(1, "keep"), (2, None)]
    assert found(warehouse, "t.joined", "id", "v", "day") == [(1, "keep", date(2026, 11, 1))]
    assert found(warehouse, "t.states", "v", "valid_from", "valid_to", "is_current") == [
        ("a", hours(0), hours(1), False),
        ("b", hours(1), hours(3), False),
        ("c", hours(3), None, True),
    ]

    # The same rows again, a new table by an old name, and nothing new in the folder.
    warehouse.drop_table("t.source")
    warehouse.create_table("t.source", IDS).append(pa.table({"id": [10]}))
    states[:] = [(1, "b", hours(2)), (1, "c", hours(3)), (1, "c", hours(4)), (1, "d", hours(5)), (2, "x", hours(1))]
    told = {step.name: step for step in p.run(run_id="2").report.steps}
    assert found(warehouse, "t.bad", "id", "v") == bad
    assert warehouse.table("t.bad").version == 1
    assert found(warehouse, "t.copied", "id") == [(1,)]
    assert found(warehouse, "t.moved", "id") == [(1,), (10,), (2,), (3,)]
    assert told["joined"].left_out == "nothing new"
    assert [(rule.name, rule.broken) for rule in told["joined"].rules] == [
        ("row_count(1, None)", 1),
        ("fresh(day, 1s)", 1),
    ]
    assert found(warehouse, "t.states", "id", "v", "valid_to") == [
        (1, "a", hours(1)),
        (1, "b", hours(3)),
        (1, "c", hours(5)),
        (1, "d", None),
        (2, "x", None),
    ]
    states[:] = [(3, "a", hours(0)), (3, "b", hours(0))]
    with pytest.raises(ConstraintError, match=r'1 keys have several states .* effective="updated_at"'):
        p.run(run_id="3")


def test_what_others_do_meanwhile_is_not_undone(
    warehouse: parqlake.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise RuntimeError("an executor was lost")

    monkeypatch.setattr(Table, "maintain", lost)
    own = warehouse.create_table("t.own", IDS)
    own.append(pa.table({"id": [1, 1]}))
    rows: dict[str, Any] = {"all": [1, 2]}
    p = Pipeline("own", lake=warehouse, spark=spark)
    p.step(target="t.own", name="own", mode="overwrite", source=table("t.own"))(lambda batch: batch.distinct())

    def meanwhile(phase: str, _: str) -> None:
        if phase == "write" and own.version == 1:
            own.append(pa.table({"id": [2]}))

    with pytest.raises(ConflictError):
        p.run(on_phase=meanwhile)
    p.run()
    assert found(warehouse, "t.own", "id") == [(1,), (2,)]

    # A first run that is started twice: the second one finds that all is done. Upkeep that fails is told, and no more.
    q = Pipeline("all", lake=warehouse, spark=spark, samples=False)

    @q.step(target="t.all", mode="snapshot", keys=["id"], maintain=maintain(compact="1MB"))
    def everything(spark: Any) -> Any:
        return spark.createDataFrame([(number,) for number in rows["all"]], "id bigint")

    twins: list[Any] = []

    def twice(phase: str, _: str) -> None:
        if phase == "write" and not twins:
            twins.append(None)
            twins.append(q.run(run_id="x"))

    assert q.run(run_id="x", on_phase=twice).replayed
    assert not twins[1].replayed
    assert twins[1].report.steps[0].maintained == {"error": "RuntimeError: an executor was lost"}
    assert q.run(run_id="x").report.steps == twins[1].report.steps
    rows["all"] = []
    with pytest.raises(QualityError, match=r"would delete all rows of t.all.*row_count\(0\)"):
        q.run()
    rows["all"] = ["ann owes 7"]
    with pytest.raises(Exception, match="ann"):
        q.run()
    assert "ann" not in str(warehouse.runs("all", limit=1)[0].error)
    daily = Pipeline("daily", lake=warehouse, spark=spark)
    daily.step(target="t.daily", name="daily", incremental=cursor("day"))(lambda: pa.table({"day": [DAY.date()]}))
    with pytest.raises(InvalidOptionError, match='use mode="merge" with keys'):
        daily.run()
