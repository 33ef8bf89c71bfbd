"""A writer process: appends batches to one table until it is done or killed.

Each append carries one batch number in all its rows, spread over several partitions and so over several files: a reader
that ever sees a part of it has seen a torn version.
"""

from __future__ import annotations

import argparse
import sys

import pyarrow as pa

import parqlake

ROWS = 200
PARTITIONS = 4
SCHEMA = pa.schema([("writer", pa.int64()), ("batch", pa.int64()), ("row", pa.int64()), ("part", pa.int64())])


def batch(writer: int, number: int) -> pa.Table:
    rows = list(range(ROWS))
    return pa.table(
        [[writer] * ROWS, [number] * ROWS, rows, [row % PARTITIONS for row in rows]],
        schema=SCHEMA,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("catalog")
    parser.add_argument("--writer", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--engine", default="pyarrow")
    arguments = parser.parse_args()
    lake = parqlake.connect(arguments.root, catalog=arguments.catalog, engine=arguments.engine)
    table = lake.table("torn.rows")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(arguments.count):
        result = table.append(batch(arguments.writer, number), idempotency_key=f"{arguments.writer}/{number}")
        sys.stdout.write(f"{number} {result.version}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
