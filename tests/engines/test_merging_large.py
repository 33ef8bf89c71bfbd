"""Merges that are larger than a batch, a span, or the memory they may use."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_merging_model import ENGINES, World, world

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
MEGABYTE = 1024 * 1024


def rows(ids: np.ndarray, x: float) -> pa.Table:
    """Rows whose columns all follow from the id and one number."""
    names = pa.array(np.char.add("name-", ids.astype(str)))
    return pa.table([pa.array(ids), names, pa.array(ids + x), pa.array(ids * 0.5)], schema=SCHEMA)


def filled(url: str, *, files: int, each: int) -> World:
    here = world(SCHEMA, url=url)
    for number in range(files):
        here.add(rows(np.arange(number * each, (number + 1) * each), 0.0), row_group_size=40_000)
    return here


@pytest.mark.parametrize(
    "keys",
    [["id"], pytest.param(["name"], marks=pytest.mark.slow), pytest.param(["name", "id"], marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("strategy", ["upsert", "full_merge"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("memory_bytes", [4 * MEGABYTE, 512 * MEGABYTE])
def test_long_files_keep_every_row_in_its_place(
    *, tmp_path: Path, engine: str, strategy: str, keys: list[str], memory_bytes: int
) -> None:
    here = filled(str(tmp_path / "lake"), files=2, each=150_000)
    ids = np.random.default_rng(3).permutation(400_000)[:80_000]
    outcome = here.merge(engine, rows(ids, 0.25).to_reader(10_000), keys, strategy, memory_bytes=memory_bytes)
    old = ids < 300_000
    kept = 300_000 if strategy == "upsert" else int(old.sum())
    assert outcome.counts.to_dict() == {
        "inserted": int((~old).sum()),
        "updated": int(old.sum()),
        "deleted": 300_000 - kept,
        "total": kept + int((~old).sum()),
    }
    table = here.read()
    found, x = table["id"].to_numpy(), table["x"].to_numpy()
    assert np.array_equal(np.sort(found), np.sort(np.union1d(ids, np.arange(300_000) if kept == 300_000 else ids)))
    assert np.array_equal(x - found, np.where(np.isin(found, ids), 0.25, 0.0))
    assert table["name"].to_pylist()[::997] == [f"name-{number}" for number in found[::997]]
    if engine == "pyarrow" or memory_bytes > 100 * MEGABYTE:  # DuckDB may shuffle rows once it puts them aside
        for file in outcome.added:
            own = here.read_file(file.path)["id"].to_numpy()
            assert file.replaces is None or (np.diff(own) > 0).all()


def peak(engine: str, count: int, memory_bytes: int, folder: Path) -> int:
    command = [sys.executable, __file__, engine, str(count), str(memory_bytes), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read by getrusage")
@pytest.mark.parametrize("engine", ENGINES)
def test_memory_stays_within_the_limit(engine: str, tmp_path: Path) -> None:
    """176 MB of source into 352 MB of target, with a limit of 64 MB and what allocators keep on top."""
    limit = 64 * MEGABYTE
    used = peak(engine, 4_000_000, limit, tmp_path / "large")
    assert used < limit * 2.2, f"{used:,} bytes"


def main(engine: str, count: int, memory_bytes: int, folder: str) -> None:
    """Prints by how many bytes a merge of `count` rows into twice as many raised the peak of this process."""
    import pyarrow.parquet as pq

    from parqlake.core.merging import TargetFile

    small = filled(folder + "/small", files=2, each=50_000)
    small.merge(engine, rows(np.arange(50_000, 90_000), 1.0), ["id"], memory_bytes=memory_bytes)
    here = world(SCHEMA, url=folder + "/large")
    step = 50_000
    here.store.make_folders(["data"])
    for number in range(8):  # written in steps, so that making the data is not what takes the memory
        path = f"data/{number}.parquet"
        with pq.ParquetWriter(here.store.full_path(path), SCHEMA) as writer:
            for start in range(number * count // 4, (number + 1) * count // 4, step):
                writer.write_table(rows(np.arange(start, start + step), 0.0))
        here.files.append(TargetFile(path, count // 4))
    batches = (
        batch
        for start in range(count, 2 * count, step)
        for batch in rows(np.arange(start, start + step), 1.0).to_batches()
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    outcome = here.merge(engine, pa.RecordBatchReader.from_batches(SCHEMA, batches), ["id"], memory_bytes=memory_bytes)
    assert outcome.counts.updated == count, outcome.counts
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
