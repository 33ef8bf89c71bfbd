"""Many processes append to one table: every call succeeds, every row is there once, every version is whole."""

from __future__ import annotations

from durability_support import Start, begin, whole_batches
from writer import SCHEMA

from parqlake.testing.backends import LakePlace

PROCESSES, APPENDS = 8, 50


def test_eight_processes_of_fifty_appends_make_four_hundred_versions(
    shared_place: LakePlace, start_writer: Start
) -> None:
    with shared_place.connect() as lake:
        table = lake.create_table("torn.rows", SCHEMA)
        writers = [start_writer(shared_place, writer=n, count=APPENDS) for n in range(PROCESSES)]
        for process in writers:
            begin(process)
        versions: list[int] = []
        for process in writers:
            output, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
            versions += [int(line.split()[1]) for line in output.splitlines()]
        assert sorted(versions) == list(range(1, PROCESSES * APPENDS + 1))
        assert table.version == PROCESSES * APPENDS
        assert whole_batches(table) == {(w, n) for w in range(PROCESSES) for n in range(APPENDS)}
        for version in (1, 57, 200, 399):
            assert len(whole_batches(table, version)) == version
        history = table.history()
        moments = [entry.committed_at for entry in history]
        assert moments == sorted(moments, reverse=True)
        assert len(set(moments)) == len(moments)
