"""A process that upserts the same few keys again and again, and says how each merge went."""

from __future__ import annotations

import sys

import pyarrow as pa

import parqlake

KEYS = 20
SCHEMA = pa.schema([("id", pa.int64()), ("writer", pa.int64()), ("round", pa.int64())])


def rows(writer: int, number: int) -> pa.Table:
    return pa.table([list(range(KEYS)), [writer] * KEYS, [number] * KEYS], schema=SCHEMA)


def main(root: str, catalog: str, writer: int, count: int) -> None:
    lake = parqlake.connect(root, catalog=catalog)
    table = lake.table("merged.rows")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(count):
        result = table.merge(rows(writer, number), on="id")
        sys.stdout.write(f"{result.version} {result.inserted} {result.updated}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
