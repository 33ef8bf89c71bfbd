"""How each driver begins: a session on the cluster, a lake, and a line of JSON for each thing it has to say."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import parqlake
from parqlake.spark import session
from parqlake.table.lake import Lake

EXECUTORS = 2


def begin() -> tuple[Any, Lake, dict[str, Any]]:
    """The session, the lake, and what the program was given."""
    given = json.loads(sys.argv[1])
    spark = session(app_name="cluster tests", master=given["master"], memory="512m", config=given["config"])
    return spark, parqlake.connect(given["root"]), given


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def orders() -> Iterator[dict[str, Any]]:
    """What the test asks for, until it closes the pipe."""
    for line in sys.stdin:
        yield json.loads(line)


def wait_for_executors(spark: Any) -> None:
    """Returns once both workers take tasks: the driver counts as one of those that hold blocks."""
    deadline = time.monotonic() + 120
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() != EXECUTORS + 1:
        if time.monotonic() > deadline:
            raise TimeoutError(f"there are not {EXECUTORS} executors")
        time.sleep(0.05)
