"""Merges a stream into a table and prints the peak of Arrow's memory in bytes; run as a process of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import parqlake

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.float64()), ("b", pa.float64()), ("c", pa.float64())])


def rows(start: int, stop: int, step: int = 1) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for first in range(start, stop, 32_768 * step):
        ids = np.arange(first, min(first + 32_768 * step, stop), step)
        arrays = [ids, *(random.random(len(ids)) for _ in range(3))]
        yield pa.RecordBatch.from_arrays([pa.array(array) for array in arrays], schema=SCHEMA)


def stream(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches)


def main(count: int, memory_limit: str) -> None:
    with tempfile.TemporaryDirectory() as folder, parqlake.connect(folder) as lake:
        table = lake.create_table("m.rows", SCHEMA)
        options = {"target_mb_per_file": 4, "row_group_size": 65_536}
        table.append(stream(rows(0, count)), **options)  # type: ignore[arg-type]
        pa.set_memory_pool(pa.system_memory_pool())  # a pool that has seen nothing yet
        source = stream(rows(0, 2 * count, 2))
        result = table.merge(source, on="id", memory_limit=memory_limit, **options)  # type: ignore[arg-type]
        half = (count + 1) // 2
        assert (result.inserted, result.updated, result.total) == (count - half, half, 2 * count - half), result
        sys.stdout.write(str(pa.default_memory_pool().max_memory()))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
