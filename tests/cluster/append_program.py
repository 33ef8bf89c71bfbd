"""A driver that appends batches to tables while things go wrong: slow, failing, dying and straggling tasks.

All rows of an append carry one batch number and the number of the attempt that made them: a reader can tell a batch
that is torn or doubled, and rows of an attempt that did not count.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS = 16_000
ROWS_PER_FILE = 250
PARTS = 8
SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("batch", "row", "part", "task", "attempt")] + [("text", pa.string())]
)
SPARK_SCHEMA = "batch long, row long, part long, task long, attempt long, text string"

Rows = Iterator[pa.RecordBatch]
Step = Callable[[int, int], None]
"""Called with the numbers of the task and of its attempt."""


def nothing(task: int, attempt: int) -> None:
    """No step at all."""


def batch_frame(
    spark: Any,
    batch: int,
    *,
    tasks: int,
    rows: int = ROWS,
    each: Step = nothing,
    before_last: Step = nothing,
    end: Step = nothing,
    part_of: Callable[[int], int] = lambda row: row % PARTS,
) -> Any:
    """A batch's rows, made by a function that takes a step at each Arrow batch, before the last one and at the end."""

    def make(batches: Rows) -> Rows:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task, attempt = context.partitionId(), context.attemptNumber()
        held = None
        for numbers in batches:
            if held is not None:
                yield held
            each(task, attempt)
            count = numbers.num_rows
            constants = [pa.array([value] * count, pa.int64()) for value in (batch, task, attempt)]
            row = numbers.column(0)
            part = pa.array([part_of(value) for value in row.to_pylist()], pa.int64())
            text = pa.array(["x" * 400] * count)  # enough that workers hand each batch on at once
            held = pa.RecordBatch.from_arrays(
                [constants[0], row, part, constants[1], constants[2], text], schema=SCHEMA
            )
        before_last(task, attempt)
        if held is not None:
            yield held
        end(task, attempt)

    return spark.range(0, rows, 1, tasks).mapInArrow(make, SPARK_SCHEMA)


def slow(spark: Any, batch: int) -> Any:
    """Eight tasks that take a while."""
    return batch_frame(spark, batch, tasks=8, each=lambda *_: time.sleep(0.04))


def quick(spark: Any, batch: int, *, rows: int = ROWS) -> Any:
    """Four tasks that take no longer than they need."""
    return batch_frame(spark, batch, tasks=4, rows=rows)


def random_parts(spark: Any, batch: int, *, rows: int = ROWS) -> Any:
    """Rows that are in another partition of the table each time they are made."""
    return batch_frame(spark, batch, tasks=4, rows=rows, part_of=lambda _: int.from_bytes(os.urandom(2)) % PARTS)


def fails_once(spark: Any, batch: int, *, folder: str, how: str) -> Any:
    """One task whose first attempt gives all rows and fails once some are in finished files."""

    def fail(task: int, attempt: int) -> None:
        if attempt:
            return
        while len(list(Path(folder).rglob("*.parquet"))) < 3:  # two of them are finished then
            time.sleep(0.02)
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("only the first attempt fails")

    return batch_frame(spark, batch, tasks=1, end=fail)


def straggles(spark: Any, batch: int, *, traces: str, delay: float) -> Any:
    """Four tasks, of which the first waits, when nearly done, until a copy of it is nearly done as well.

    Then the copy goes on at once, and the first attempt after the delay.
    """

    def meet(task: int, attempt: int) -> None:
        if task != 0:
            return
        Path(traces, f"{batch}-{attempt}").write_text(os.environ["SPARK_LOCAL_IP"])
        deadline = time.monotonic() + 60
        while not Path(traces, f"{batch}-{1 - attempt}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        if attempt == 0:
            time.sleep(delay)

    return batch_frame(spark, batch, tasks=4, before_last=meet)


FRAMES: dict[str, Callable[..., Any]] = {
    "slow": slow,
    "quick": quick,
    "random_parts": random_parts,
    "fails_once": fails_once,
    "straggles": straggles,
}


def main() -> None:
    from program_support import begin, orders, say, wait_for_executors

    spark, lake, _ = begin()
    wait_for_executors(spark)
    say(ready=True)
    for order in orders():
        wait_for_executors(spark)
        say(begun=True)
        frame = FRAMES[order["frame"]](spark, order["batch"], **order.get("options", {}))
        try:
            result = lake.table(order["table"]).append(frame, max_rows_per_file=ROWS_PER_FILE)
        except Exception as error:
            say(failed=type(error).__name__, message=str(error)[:2000])
        else:
            say(version=result.version, rows=result.row_count)
    spark.stop()


if __name__ == "__main__":
    main()
