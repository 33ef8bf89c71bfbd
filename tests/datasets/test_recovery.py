"""Whatever fails, and whenever: after recovery the old rows are there or the new ones, never none, both or a mix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import uuid_utils
from datasets_support import (
    OLD,
    OPERATIONS,
    Fault,
    append_many,
    faulty_disk,
    faulty_memory,
    fill,
    left_behind,
    overwrite,
    recover_later,
    rows,
)

from parqlake.core.errors import ParqlakeError, StoreReadOnlyError, UnknownOutcomeError
from parqlake.datasets import recover
from parqlake.datasets.journal import journal_path, work_folder
from parqlake.datasets.place import Place
from parqlake.datasets.recovery import recover_before_reading, recover_place

Operation = Callable[[Place], list[bytes]]
before = sorted(OLD.values())
# The journal's code is the same for all of them; on a disk, where it takes seconds each, two run every time.
ON_DISK = [
    pytest.param(operation, marks=[] if operation in (overwrite, append_many) else [pytest.mark.slow])
    for operation in OPERATIONS
]


def run(place: Place, operation: Operation, fault: Fault) -> tuple[list[bytes] | None, Exception | None]:
    with fault.on():
        try:
            return operation(place), None
        except (ParqlakeError, OSError) as error:
            return None, error


def check(place: Place, after: list[bytes], result: object, error: Exception | None, fault: Fault) -> None:
    where = f"call {fault.at} ({fault.names[fault.at - 1 : fault.at]}), after={fault.after}, lasting={fault.lasting}"
    recover_place(place)  # not `recover`: an object store that holds nothing has no such folder either
    found = rows(place)
    assert found in (before, after), where
    if error is None:
        assert found == after, f"said to be done, and is not: {where}"
    elif not isinstance(error, UnknownOutcomeError):
        assert found == before, f"said to have failed, and is done: {where}: {error!r}"
    recover_later(place)
    assert left_behind(place) == [], where
    assert not recover_place(place)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("late", [False, True], ids=["before-the-effect", "after-it"])
@pytest.mark.parametrize("folders", [True, False], ids=["folders", "objects"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_remote_store_that_fails_at_any_call(operation: Operation, folders: bool, late: bool, lasting: bool) -> None:
    for at in range(1, 1000):
        fault = Fault(at, after=late, lasting=lasting)
        place = Place("bucket/data", filesystem=faulty_memory(fault, folders=folders))
        fill(place, OLD)
        expected = operation(_copy(place, folders=folders))
        result, error = run(place, operation, fault)
        check(place, expected, result, error, fault)
        if fault.calls < at:
            break
    assert at > 15, fault.names


def _copy(place: Place, *, folders: bool) -> Place:
    other = Place("bucket/data", filesystem=faulty_memory(Fault(0), folders=folders))
    fill(other, OLD)
    return other


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to tell which file is forced to disk")
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("late", [False, True], ids=["before-the-effect", "after-it"])
@pytest.mark.parametrize("operation", ON_DISK)
def test_a_disk_that_fails_at_any_call(
    operation: Operation, late: bool, lasting: bool, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Place(quick_folder / "model")
    fill(model, OLD)
    expected = operation(model)
    for at in range(1, 1000):
        fault = Fault(at, after=late, lasting=lasting)
        root = quick_folder / f"data-{at}"
        place = Place(root)
        fill(place, OLD)
        with faulty_disk(fault, root, monkeypatch):
            result, error = run(place, operation, fault)
        check(place, expected, result, error, fault)
        if fault.calls < at:
            break
    assert at > 20, fault.names


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")
@pytest.mark.parametrize("late", [False, True], ids=["before-the-effect", "after-it"])
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", ON_DISK)
def test_kill_9_at_any_call(
    operation: Operation, step: int, late: bool, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Place(quick_folder / "model")
    fill(model, OLD)
    expected = operation(model)
    outcomes = set()
    for at in range(1, 1000, step):
        root = quick_folder / f"data-{at}"
        place = Place(root)
        fill(place, OLD)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of the parent do not matter to this child
            child = os.fork()
        if child == 0:
            fault = Fault(at, after=late, act=lambda: os.kill(os.getpid(), signal.SIGKILL))
            with faulty_disk(fault, root, monkeypatch), fault.on():
                operation(place)
            os._exit(0 if fault.calls < at else 3)  # 3: the call failed by itself, and so had no end to be killed at
        _, status = os.waitpid(child, 0)
        recover(root)
        found = rows(place)
        assert found in (before, expected), f"call {at}"
        recover_later(place)
        assert left_behind(place) == [], f"call {at}"
        outcomes.add(found == expected)
        if os.WIFEXITED(status):
            assert found == expected
            assert os.WEXITSTATUS(status) in (0, 3)
            if os.WEXITSTATUS(status) == 0:
                break
    assert at > 20
    assert outcomes == {False, True}


@pytest.mark.parametrize("folders", [True, False], ids=["folders", "objects"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_at_no_moment_a_reader_misses_rows(operation: Operation, folders: bool) -> None:
    # Both the old rows and the new ones may be seen in the middle of a swap; fewer than either never.
    seen: list[list[bytes]] = []
    fault = Fault(1, lasting=True, act=lambda: seen.append(rows(place)))
    place = Place("bucket/data", filesystem=faulty_memory(fault, folders=folders))
    fill(place, OLD)
    with fault.on():
        after = operation(place)
    assert len(seen) > 15
    assert [found for found in seen if not set(before) <= set(found) and not set(after) <= set(found)] == []


SWAPPER = """
import sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap
place = Place(sys.argv[1])
for turn in range(int(sys.argv[2]), 10**6):
    with Swap(place) as swap:
        old = swap.files()
        for part in range(4):
            staged = swap.stage_new(Naming("data_{}.parquet"), f"part={part % 2}")
            pq.write_table(pa.table({"turn": [turn] * 10}), staged.full_path)
        swap.commit(remove=old)
    print(turn, flush=True)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_killing_a_process_at_random_moments(kills: int, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    root, moments, acknowledged = tmp_path / "data", Random(7), 0
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", SWAPPER, str(root), str(acknowledged + 1)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(moments.uniform(0, 0.1))
        process.kill()
        output, _ = process.communicate()
        acknowledged = int((first + output).split()[-1])
        recover(root)
        files = Place(root).files()
        turns = [pq.read_table(root / file.path, partitioning=None)["turn"].to_pylist() for file in files]
        assert len(turns) == 4
        assert turns in ([[acknowledged] * 10] * 4, [[acknowledged + 1] * 10] * 4)
        acknowledged = turns[0][0]
        recover_later(Place(root))
        assert left_behind(Place(root)) == []


@pytest.mark.parametrize("operation", [overwrite, append_many])
def test_the_next_operation_recovers_by_itself(operation: Operation) -> None:
    # Fails for good right after the journal was written, so that the swap is committed and nothing is in place.
    for at in range(1, 1000):
        fault = Fault(at, lasting=True)
        place = Place("bucket/data", filesystem=faulty_memory(fault, folders=True))
        fill(place, OLD)
        _, error = run(place, operation, fault)
        if isinstance(error, UnknownOutcomeError) and "it is committed" in str(error):
            break
    assert any(path.endswith("/journal") for path in left_behind(place))
    assert rows(place) == before
    append_many(place)
    assert {b"new 1", b"new 22"} <= set(rows(place)) if operation is overwrite else rows(place).count(b"add 1") == 2
    assert left_behind(place) == []


def test_recover_says_what_it_did(place: Place, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r'Dataset path ".*" does not exist'):
        recover(place.url, filesystem=place.filesystem)
    fill(place, OLD)
    assert not recover(place.url, filesystem=place.filesystem)
    place.store.write_bytes(f"{work_folder('018f')}/000000.staged", b"x")
    found = recover(place.url, filesystem=place.filesystem)
    assert found.rolled_back == ("018f",)
    assert found.rolled_forward == found.at_work == ()
    assert rows(place) == before
    assert left_behind(place) == []


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(NotADirectoryError, match="exists but is a file"):
        recover(tmp_path / "file")


def test_a_commit_whose_answer_was_lost_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    # The client of a store repeats a request by itself: the second time it hears that the file is there.
    filesystem = faulty_memory(Fault(0), folders=False)
    place = Place("bucket/data", filesystem=filesystem)
    fill(place, OLD)
    once = type(filesystem).pipe_file

    def twice(self: object, path: str, value: bytes, mode: str = "overwrite", **kwargs: object) -> None:
        once(self, path, value, mode=mode, **kwargs)
        if mode == "create":
            once(self, path, value, mode=mode, **kwargs)

    monkeypatch.setattr(type(filesystem), "pipe_file", twice)
    assert overwrite(place) == rows(place)
    assert left_behind(place) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs POSIX permissions")
def test_a_reader_without_the_right_to_write() -> None:
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        root = Path(top) / "data"
        place = Place(root)
        staged = f"{work_folder('018f')}/0.staged"
        fill(place, {**OLD, staged: b"new"})
        for folder in [root, *root.rglob("*")]:
            folder.chmod(0o555)
        with _unprivileged():
            assert not recover_before_reading(place)  # what was only staged does not matter to readers
            assert rows(place) == before
        journal = root / journal_path("018f")
        journal.parent.chmod(0o755)
        addition = {"staged": staged, "final": "x.parquet", "size_bytes": 3, "replaces": False}
        journal.write_text(json.dumps({"format": 1, "add": [addition], "remove": []}))
        journal.parent.chmod(0o555)
        with _unprivileged(), pytest.raises(StoreReadOnlyError, match="interrupted half way"):
            recover_before_reading(place)
        for folder in [root, *root.rglob("*")]:
            folder.chmod(0o755)
        assert recover_before_reading(place).rolled_forward == ("018f",)
        assert rows(place) == sorted([*before, b"new"])


@pytest.mark.skipif(sys.platform != "linux", reason="needs POSIX permissions")
def test_a_writer_without_the_right_to_write_is_told_of_the_directory() -> None:
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        place = Place(Path(top) / "data")
        fill(place, OLD)
        Path(top, "data").chmod(0o555)
        with _unprivileged(), pytest.raises(StoreReadOnlyError) as caught:
            overwrite(place)
        assert f'cannot write to "{place.url}"' in str(caught.value)
        assert "give this user the right to write there" in str(caught.value)
        assert ".parqlake" not in str(caught.value)
        assert rows(place) == before


def test_a_claim_that_is_being_written_is_left_to_its_writer(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, OLD)
    claims = tmp_path / ".parqlake/claims"
    claims.mkdir(parents=True)
    now = int(time.time() * 1000)
    for age_seconds in (0, 60, 600):
        born = uuid_utils.uuid7().int & ((1 << 80) - 1) | (now - age_seconds * 1000) << 80
        (claims / f".parqlake-tmp-{uuid.UUID(int=born)}").write_text("{")
    (claims / ".of-nobody").write_text("{")
    recover_place(place)
    assert sorted(now - (uuid.UUID(path.name[-36:]).int >> 80) for path in claims.iterdir()) == [0, 60_000]


@contextmanager
def _unprivileged() -> Iterator[None]:
    """Permissions do not bind the superuser: become nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
