"""Swaps: what a commit does and leaves, what it refuses, and who is kept out."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets_support import OLD, append_many, empty_it, fill, left_behind, overwrite, rewrite_in_place, rows, write

from parqlake.core.errors import (
    CatalogVersionError,
    ConcurrentRemoveError,
    ConflictError,
    InvalidOptionError,
    StoreError,
    TransactionExpiredError,
    UnsafePathError,
)
from parqlake.core.ports import StoredFile
from parqlake.datasets.claims import LEASE_SECONDS, SKEW_SECONDS, claim_path, read_claim
from parqlake.datasets.journal import journal_path, work_folder
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.recovery import recover_place
from parqlake.datasets.swap import Swap

before = sorted(OLD.values())


def test_a_commit_leaves_the_new_files_and_nothing_of_its_own(place: Place) -> None:
    fill(place, {**OLD, "_metadata": b"m", "notes.txt": b"n", "_old/x.parquet": b"hidden"})
    assert rows(place) == before
    assert overwrite(place) == rows(place)
    assert left_behind(place) == []
    others = {file.path for file in place.store.list_files("")} - {file.path for file in place.files()}
    assert others == {"_metadata", "notes.txt", "_old/x.parquet"}
    assert "p=2" not in place.store.list_folders("")  # folders that the swap emptied are gone too


@pytest.mark.parametrize("operation", [rewrite_in_place, append_many, empty_it])
def test_other_shapes(place: Place, operation: Any) -> None:
    fill(place, OLD)
    assert operation(place) == rows(place)
    assert left_behind(place) == []


def test_a_directory_is_created_on_first_use(place: Place) -> None:
    with Swap(place, append=True) as swap:
        write(place, swap.stage_new(Naming()).full_path, b"1")
        write(place, swap.stage_new(Naming(), "p=1").full_path, b"2")
        assert place.files() == []
        swap.commit()
    assert rows(place) == [b"1", b"2"]


def test_leaving_without_a_commit_takes_everything_back(place: Place) -> None:
    fill(place, OLD)
    with pytest.raises(ZeroDivisionError), Swap(place) as swap:
        write(place, swap.stage_new(Naming("data_{}.parquet")).full_path, b"1")
        raise ZeroDivisionError
    assert rows(place) == before
    assert left_behind(place) == []


def test_no_reader_finds_what_is_staged(tmp_path: Path) -> None:
    place = Place(tmp_path / "data")
    fill(place, {})
    pq.write_table(pa.table({"a": [1]}), tmp_path / "data" / "old.parquet")
    with Swap(place) as swap:
        pq.write_table(pa.table({"a": [2]}), swap.stage_new(Naming("data_{}.parquet")).full_path)
        pq.write_table(pa.table({"a": [3]}), tmp_path / "data" / swap.folder / "task-7")
        swap.adopt(f"{swap.folder}/task-7", "deep/seven.parquet")
        glob = f"{tmp_path}/data/**/*.parquet"
        assert duckdb.execute("select a from read_parquet(?)", [glob]).fetchall() == [(1,)]
        assert pq.read_table(tmp_path / "data").to_pydict() == {"a": [1]}
        swap.commit(remove=swap.files())
    assert sorted(duckdb.execute("select a from read_parquet(?)", [glob]).fetchall()) == [(2,), (3,)]
    assert sorted(pq.read_table(tmp_path / "data")["a"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("change", ["gone", "replaced"])
def test_a_file_that_changed_meanwhile_refuses_the_commit(place: Place, change: str) -> None:
    fill(place, OLD)
    with (
        pytest.raises(ConcurrentRemoveError, match=r'"p=1/data_000.parquet".*(gone|replaced); run it again'),
        Swap(place) as swap,
    ):
        old = swap.files()
        write(place, swap.stage_new(Naming()).full_path, b"new")
        if change == "gone":
            place.store.delete(["p=1/data_000.parquet"])
        else:
            place.store.write_bytes("p=1/data_000.parquet", b"someone else's")
        swap.commit(remove=old)
    changed = {**OLD, "p=1/data_000.parquet": b"someone else's"}
    if change == "gone":
        del changed["p=1/data_000.parquet"]
    assert rows(place) == sorted(changed.values())
    assert left_behind(place) == []


def test_a_name_that_someone_took_refuses_the_commit(place: Place) -> None:
    fill(place, OLD)
    with pytest.raises(ConflictError, match=r'"x.parquet" was written by someone else'), Swap(place) as swap:
        write(place, swap.stage("x.parquet").full_path, b"new")
        place.store.write_bytes("x.parquet", b"other")
        swap.commit(remove=swap.files()[:1])
    assert rows(place) == sorted([*before, b"other"])


def test_a_strangers_file_is_never_replaced_after_the_commit(tmp_path: Path) -> None:
    place = Place(tmp_path / "data")
    fill(place, {**OLD, f"{work_folder('018f')}/0.staged": b"ours", "x.parquet": b"stranger's"})
    intent = {"txn": "018f", "add": [_add("0.staged", "x.parquet", 4)], "remove": []}
    place.store.write_bytes(journal_path("018f"), json.dumps({"format": 1, **intent}).encode())
    assert recover_place(place).rolled_forward == ("018f",)
    assert rows(place) == sorted([*before, b"ours", b"stranger's"])
    assert place.store.read_bytes("x.parquet") == b"stranger's"


def test_a_file_written_anew_is_not_deleted(place: Place) -> None:
    fill(place, {**OLD, f"{work_folder('018f')}/0.staged": b"ours"})
    remove = [{"path": "data_000.parquet", "size_bytes": 99}, {"path": "p=1/data_000.parquet", "size_bytes": 6}]
    intent = {"txn": "018f", "add": [_add("0.staged", "x.parquet", 4)], "remove": remove}
    place.store.write_bytes(journal_path("018f"), json.dumps({"format": 1, **intent}).encode())
    recover_place(place)
    assert rows(place) == sorted([b"old 1", b"old 333", b"ours"])


def test_a_commit_that_comes_after_it_was_given_up_is_void(place: Place) -> None:
    # What a slow owner would write that did not notice: its files are gone, and the old ones must stay.
    fill(place, OLD)
    remove = [{"path": path, "size_bytes": len(data)} for path, data in OLD.items()]
    intent = {"txn": "018f", "add": [_add("0.staged", "x.parquet", 4)], "remove": remove}
    place.store.write_bytes(journal_path("018f"), json.dumps({"format": 1, **intent}).encode())
    assert recover_place(place).rolled_back == ("018f",)
    assert rows(place) == before
    assert left_behind(place) == []


@pytest.mark.parametrize("torn", [b"", b'{"format": 1, "add": [', b"[]", b'{"format": 1}'])
def test_a_torn_journal_decides_nothing(place: Place, torn: bytes) -> None:
    fill(place, {**OLD, f"{work_folder('018f')}/0.staged": b"ours", journal_path("018f"): torn})
    assert recover_place(place).rolled_back == ("018f",)
    assert rows(place) == before
    assert left_behind(place) == []


def test_a_journal_is_no_way_out(tmp_path: Path) -> None:
    place = Place(tmp_path / "data")
    (tmp_path / "precious").write_bytes(b"x")
    fill(place, {f"{work_folder('018f')}/0.staged": b"ours"})
    for intent in (
        {"add": [_add("0.staged", "../precious", 1, replaces=True)], "remove": []},
        {"add": [], "remove": [{"path": "../precious", "size_bytes": 1}]},
    ):
        place.store.write_bytes(journal_path("018f"), json.dumps({"format": 1, **intent}).encode())
        with pytest.raises(UnsafePathError, match="precious"):
            recover_place(place)
    assert (tmp_path / "precious").read_bytes() == b"x"


def test_a_newer_journal_is_left_alone(place: Place) -> None:
    fill(place, {**OLD, journal_path("018f"): b'{"format": 2}'})
    with pytest.raises(CatalogVersionError, match="newer parqlake"):
        recover_place(place)
    assert left_behind(place)


def _add(staged: str, final: str, size: int, *, replaces: bool = False) -> dict[str, Any]:
    return {"staged": f"{work_folder('018f')}/{staged}", "final": final, "size_bytes": size, "replaces": replaces}


def test_wrong_calls_are_refused(place: Place) -> None:
    fill(place, OLD)
    with Swap(place, append=True) as swap:
        with pytest.raises(InvalidOptionError, match="removes nothing"):
            swap.commit(remove=[StoredFile("data_000.parquet", 5)])
        for name in ("x.txt", "_x.parquet", ".p/x.parquet"):
            with pytest.raises(InvalidOptionError, match=re.escape(f'"{name}"')):
                swap.stage(name)
        with pytest.raises(UnsafePathError):
            swap.stage("../x.parquet")
        with pytest.raises(UnsafePathError):
            swap.stage_new(Naming(), "../x")
        for path in ("x", f"{swap.folder}/a.parquet", journal_path(swap.txn)):
            with pytest.raises(InvalidOptionError, match="cannot adopt"):
                swap.adopt(path, "y.parquet")
        swap.stage("x.parquet")
        with pytest.raises(InvalidOptionError, match="staged before"):
            swap.stage("x.parquet")
        with pytest.raises(StoreError, match=r'nothing was written for "x.parquet"'):
            swap.commit()
    with pytest.raises(InvalidOptionError, match="has ended"):
        swap.commit()
    assert rows(place) == before


def test_the_second_maintainer_is_told_who_holds_it(place: Place) -> None:
    fill(place, OLD)
    with Swap(place):
        who = rf"being rewritten by \S+:{os.getpid()} since 20\d\d-\S+"
        with pytest.raises(ConflictError, match=who), Swap(place):
            raise AssertionError
        append_many(place)  # appends need no lease
    assert left_behind(place) == []
    overwrite(place)


def test_of_many_maintainers_one_is_inside(place: Place) -> None:
    fill(place, OLD)
    inside, most, done = 0, 0, 0
    guard = threading.Lock()

    def maintain(_: int) -> None:
        nonlocal inside, most, done
        for _ in range(5):
            try:
                with Swap(place) as swap:
                    with guard:
                        inside += 1
                        most = max(most, inside)
                    write(place, swap.stage_new(Naming()).full_path, b"new")
                    time.sleep(0.002)
                    with guard:
                        inside -= 1
                    swap.commit(remove=swap.files())
                    done += 1
            except ConflictError as error:
                assert "being rewritten by" in str(error)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(maintain, range(5)))
    assert most == 1
    assert done >= 1
    assert rows(place) == [b"new"]
    assert left_behind(place) == []


def _forged(place: Place, txn: str, **changes: Any) -> None:
    """The claim of someone on another machine."""
    claim = {
        **{"txn": txn, "owner": "ann@elsewhere:7", "machine": "elsewhere", "pid": 7, "process": "1"},
        **{"maintains": True, "holds": True, "since": "2026-01-01T00:00:00+00:00", "expires": time.time() + 5},
    }
    place.store.write_bytes(claim_path(txn), json.dumps({**claim, **changes}).encode())


def test_a_lease_of_another_machine_runs_out(place: Place) -> None:
    fill(place, {**OLD, f"{work_folder('018f')}/0.staged": b"theirs"})
    for expires in (time.time() + LEASE_SECONDS, time.time() - SKEW_SECONDS / 2):  # clocks may differ by a little
        _forged(place, "018f", expires=expires)
        with pytest.raises(ConflictError, match="ann@elsewhere:7 since 2026-01-01"), Swap(place):
            raise AssertionError
        assert recover_place(place).at_work == ("018f",)
        assert place.store.exists(f"{work_folder('018f')}/0.staged")
    _forged(place, "018f", expires=time.time() - SKEW_SECONDS - 1)
    assert overwrite(place) == rows(place)
    assert left_behind(place) == []


def test_one_who_only_asks_does_not_keep_others_out_for_long(place: Place) -> None:
    fill(place, OLD)
    _forged(place, "018f", holds=False)
    timer = threading.Timer(0.1, lambda: place.store.delete([claim_path("018f")]))
    timer.start()
    overwrite(place)
    timer.join()


def test_an_owner_that_was_taken_for_dead_cannot_commit(place: Place) -> None:
    fill(place, OLD)
    with pytest.raises(TransactionExpiredError, match="no sign of life"), Swap(place) as swap:
        write(place, swap.stage_new(Naming()).full_path, b"new")
        _forged(place, swap.txn, expires=0)
        assert recover_place(place).rolled_back == (swap.txn,)
        swap.commit(remove=swap.files())
    assert rows(place) == before
    assert left_behind(place) == []


def test_an_abort_and_a_commit_exclude_each_other(place: Place) -> None:
    fill(place, OLD)
    with pytest.raises(TransactionExpiredError), Swap(place) as swap:
        for _ in range(2):
            write(place, swap.stage_new(Naming()).full_path, b"new")
        place.store.write_bytes(journal_path(swap.txn), b'{"format": 1, "aborted": true}')
        swap.commit(remove=swap.files())
    assert rows(place) == before
    assert left_behind(place) == []


def test_a_lease_is_renewed_while_its_owner_works(place: Place) -> None:
    with Swap(place, lease_seconds=0.4) as swap:
        first = read_claim(place.store, swap.txn)
        assert first is not None
        until = time.monotonic() + 10
        while (now := read_claim(place.store, swap.txn)) is None or now.expires <= first.expires:
            assert time.monotonic() < until, "never renewed"
            time.sleep(0.05)
    time.sleep(0.3)
    assert left_behind(place) == []  # no renewal brings it back


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the lease tells")
def test_a_dead_process_of_this_machine_is_known_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path / "data")
    fill(place, OLD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the parent do not matter to this child
        child = os.fork()
    if child == 0:
        Swap(place).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    assert left_behind(place)
    assert overwrite(place) == rows(place)
    assert left_behind(place) == []


def test_files_waits_until_an_append_is_whole(place: Place) -> None:
    fill(place, {**OLD, "half.parquet": b"half 1", f"{work_folder('018f')}/1.staged": b"half 2"})
    add = [_add("0.staged", "half.parquet", 6), _add("1.staged", "whole.parquet", 6)]
    place.store.write_bytes(journal_path("018f"), json.dumps({"format": 1, "add": add, "remove": []}).encode())
    _forged(place, "018f", maintains=False)

    def finish() -> None:
        place.store.move(f"{work_folder('018f')}/1.staged", "whole.parquet")
        place.store.delete([journal_path("018f")])
        place.store.delete([claim_path("018f")])

    with Swap(place) as swap:
        timer = threading.Timer(0.2, finish)
        timer.start()
        assert [file.path for file in swap.files()] == sorted([*OLD, "half.parquet", "whole.parquet"])
        timer.join()
