"""How quickly the explorer answers over a table of very many files: each page asked for twice.

    python benchmarks/explorer.py                 # 1M files
    python benchmarks/explorer.py --smoke         # 20,000 files

The table is that of planning.py: statistics without Parquet files behind them, since no page but the sample of rows
opens one. The first answer reads the catalog; the second has what is kept of a version. Times are CPU time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from starlette.testclient import TestClient

import parqlake
import planning
from parqlake.ui import app
from report import Report, machine

COLUMNS = 6
FILES_PER_COMMIT = 8_000
TABLE = "/tables/bench.files"
PLACES = {
    "tables": "/",
    "overview": f"{TABLE}/overview",
    "history": f"{TABLE}/history",
    "diff of the last two versions": f"{TABLE}/diff",
    "files": f"{TABLE}/files",
    "files, largest first": f"{TABLE}/files?sort=largest",
    "clustering": f"{TABLE}/clustering",
    "clustering, a predicate that few files match": f"{TABLE}/clustering?where=clustered < 5000000",
    "clustering, one that all match": f"{TABLE}/clustering?where=random > 1000",
    "explain": f"{TABLE}/explain?where=clustered < 5000000 and random > 1000",
    "maintenance": f"{TABLE}/maintenance",
    "health": f"{TABLE}/health",
}


def build(lake: parqlake.Lake, files: int) -> None:
    """Commits that many files of one row group each."""
    table = lake.create_table("bench.files", planning.schema(COLUMNS))
    rng = np.random.default_rng(7)
    for start in range(0, files, FILES_PER_COMMIT):
        some = min(FILES_PER_COMMIT, files - start)
        planning.commit(table, planning.data_files(some, start, rng, 1, columns=COLUMNS))


def answer_ms(client: TestClient, place: str) -> float:
    begun = time.process_time()
    answer = client.get(place)
    assert answer.status_code == 200, answer.text
    return (time.process_time() - begun) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="20,000 files instead of 1,000,000")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    files = 20_000 if arguments.smoke else 1_000_000
    report = Report(f"The explorer over {files:,} files × {COLUMNS} columns", machine())
    with tempfile.TemporaryDirectory() as folder:
        with parqlake.connect(folder) as lake:
            build(lake, files)
        with parqlake.connect(folder) as lake:
            client = TestClient(app(lake), base_url="http://127.0.0.1")
            for name, place in PLACES.items():
                first, again = answer_ms(client, place), answer_ms(client, place)
                report.add("explorer", name, again, "ms", note=f"{first:,.0f} ms the first time")
    report.show(arguments.json)


if __name__ == "__main__":
    main()
