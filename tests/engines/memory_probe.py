"""Writes or reads a number of rows and prints the peak of memory in bytes; run as a process of its own."""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from parqlake.core.ports import PlannedFile, ReadPlan, WriteSpec
from parqlake.core.schema import assign_field_ids
from parqlake.engines import DuckDBEngine, PyArrowEngine
from parqlake.stores import open_store

SCHEMA = assign_field_ids(pa.schema([("id", pa.int64()), ("x", pa.float64()), ("y", pa.float64()), ("p", pa.int32())]))
MEGABYTE = 1024 * 1024


def batches(rows: int, mode: str) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for start in range(0, rows, 32_768):
        ids = np.arange(start, min(start + 32_768, rows))
        keys = ids * 100 // rows if mode == "clustered" else random.integers(0, 100, len(ids))
        arrays = [ids, random.random(len(ids)), random.random(len(ids)), keys.astype(np.int32)]
        yield pa.RecordBatch.from_arrays([pa.array(array) for array in arrays], schema=SCHEMA)


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(engine_name: str, mode: str, rows: int) -> None:
    engine = DuckDBEngine(memory_limit="100MB", threads=2) if engine_name == "duckdb" else PyArrowEngine()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        spec = WriteSpec(
            location="t",
            schema=SCHEMA,
            partition_by=() if mode in ("plain", "read") else ("p",),
            row_group_bytes=MEGABYTE,
            target_file_bytes=4 * MEGABYTE,
            memory_bytes=4 * MEGABYTE,
        )
        # A first write loads what is loaded lazily, so that it does not count.
        files = engine.write(pa.RecordBatchReader.from_batches(SCHEMA, batches(50_000, mode)), spec, store)
        before = resident()
        files = engine.write(pa.RecordBatchReader.from_batches(SCHEMA, batches(rows, mode)), spec, store)
        if mode == "read":
            pa.set_memory_pool(pa.system_memory_pool())  # a pool that has seen nothing yet
            planned = tuple(
                PlannedFile(f"t/{f.path}", f.size_bytes, None, f.row_count, f.size_bytes, f.partition, 1, 1)
                for f in files
            )
            found = sum(batch.num_rows for batch in PyArrowEngine().batches(ReadPlan(SCHEMA, planned), store))
            assert found == rows
        print(resident() - before if engine_name == "duckdb" else pa.default_memory_pool().max_memory())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
