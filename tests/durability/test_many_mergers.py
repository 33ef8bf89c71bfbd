"""Many processes upsert the same keys: every call succeeds, and each key is there once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from durability_support import begin
from merger import KEYS, SCHEMA

from parqlake.testing.backends import LakePlace

PROCESSES, MERGES = 3, 4
MERGER = Path(__file__).with_name("merger.py")


def test_three_processes_that_upsert_the_same_new_keys_leave_each_once(shared_place: LakePlace) -> None:
    with shared_place.connect() as lake:
        table = lake.create_table("merged.rows", SCHEMA)
        command = [sys.executable, str(MERGER), shared_place.root, shared_place.catalog]
        mergers = [
            subprocess.Popen(
                [*command, str(writer), str(MERGES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for writer in range(PROCESSES)
        ]
        told: list[tuple[int, ...]] = []
        try:
            for process in mergers:
                begin(process)
            for process in mergers:
                output, errors = process.communicate(timeout=120)
                assert process.returncode == 0, errors
                told += [tuple(map(int, line.split())) for line in output.splitlines()]
        finally:
            for process in mergers:
                if process.poll() is None:
                    process.kill()
                process.communicate()
        assert sorted(version for version, _, _ in told) == list(range(1, PROCESSES * MERGES + 1))
        assert sorted(inserted for _, inserted, _ in told)[-2:] == [0, KEYS]
        assert all(inserted + updated == KEYS for _, inserted, updated in told)
        for version in range(1, table.version + 1):
            found = table.scan(version=version).to_arrow()
            assert sorted(found.column("id").to_pylist()) == list(range(KEYS)), version
            assert (
                len(set(zip(found.column("writer").to_pylist(), found.column("round").to_pylist(), strict=True))) == 1
            )
