"""What the Spark benchmarks share: a session, orders, and the CPU time of everything that Spark started."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import psutil

from parqlake.spark import session

ORDERS = """
    id,
    cast(hash(id) & 1048575 as bigint) as customer,
    element_at(array('eu', 'us', 'apac', 'latam'), cast(pmod(hash(id, 1), 4) + 1 as int)) as region,
    round(pmod(hash(id, 2), 1000000) / 100.0, 2) as amount,
    cast(pmod(hash(id, 3), 9) + 1 as int) as quantity,
    timestamp_micros(1700000000000000 + id * 1000000) as at,
    concat('note number ', pmod(hash(id, 4), 5000)) as note,
    cast(id * 100 div {rows} as int) as part
"""


def start(memory: str = "2g") -> Any:
    """A local session on all cores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session("parqlake-benchmark", memory=memory)


def orders(spark: Any, rows: int, partitions: int) -> Any:
    """Orders, made where they are used; `part` splits them into 100."""
    return spark.range(0, rows, 1, partitions).selectExpr(*_expressions(rows))


def cpu_seconds() -> float:
    """CPU time so far of this process and all that it started, the JVM and its Python workers included."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of the work."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - wall, cpu_seconds() - cpu


def _expressions(rows: int) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in ORDERS.format(rows=rows):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [*parts, current.strip()]
