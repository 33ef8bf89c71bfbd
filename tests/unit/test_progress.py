"""Progress is told in order, ends at its total, and is drawn only where somebody looks on."""

from __future__ import annotations

import os
import pickle
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parqlake import connect, errors
from parqlake.core.errors import InvalidOptionError
from parqlake.table import progress_bar
from parqlake.table.progress import SILENT, Progress, Report, check_progress, reporting

PROGRAM = """
import sys, time, pyarrow as pa, parqlake
from parqlake.engines.arrow import PyArrowEngine

class Slow(PyArrowEngine):
    def rewrite_groups(self, groups, spec, *args, **options):
        made = super().rewrite_groups(groups, spec, *args, **options)
        time.sleep(0.9)
        return made

for name, progress in (("quiet", False), ("shown", None)):
    with parqlake.connect(sys.argv[1], engine=Slow(), progress=progress) as lake:
        table = lake.create_table(f"sales.{name}", pa.schema({"id": pa.int64()}))
        for number in range(4):
            table.append(pa.table({"id": [number] * 3}))
        print(table.compact(None, 12).after_file_count)
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def _told(report: Report, told: list[Progress]) -> list[tuple[int, int | None, str]]:
    report.finish()
    return [(progress.done, progress.total, progress.unit) for progress in told]


def test_progress_is_told_in_order_and_ends_at_its_total() -> None:
    told: list[Progress] = []
    report = Report(told.append, "compact", "a.b")
    assert _told(report, told) == []  # nothing was done
    report.expect(10, "rows", "two files")
    report.advance(4)
    report.advance(20)
    assert _told(report, told) == [(0, 10, "rows"), (4, 10, "rows"), (10, 10, "rows")]
    assert {(progress.operation, progress.table, progress.message) for progress in told} == {
        ("compact", "a.b", "two files")
    }
    told.clear()
    report.expect(5, "files")
    assert _told(report, told) == [(0, 5, "files"), (5, 5, "files")]
    told.clear()
    report = Report(told.append, "append", "a.b")
    report.advance(100)
    assert told[0].share is None
    assert _told(report, told) == [(100, None, "bytes"), (100, 100, "bytes")]
    assert [Progress("x", "t", 1, total, "rows").share for total in (None, 0, 4)] == [None, 1.0, 0.25]
    elsewhere = pickle.loads(pickle.dumps(report))
    elsewhere.advance(5)
    assert len(told) == 2


def test_who_is_told() -> None:
    of_call, of_lake = list[Progress](), list[Progress]()
    with reporting(of_call.append, of_lake.append, operation="x", table="t") as report:
        report.expect(1, "rows")
    with reporting(None, of_lake.append, operation="y", table="t") as report:
        report.expect(1, "rows")
    with reporting(False, of_lake.append, operation="z", table="t") as report:
        assert report is SILENT
    assert [progress.operation for progress in of_call] == ["x", "x"]
    assert [progress.operation for progress in of_lake] == ["y", "y"]
    with pytest.raises(KeyError), reporting(of_call.append, None, operation="w", table="t") as report:
        report.expect(9, "rows")
        raise KeyError
    assert of_call[-1].done == 0  # what failed is not done
    for wrong in (3, "yes", [print]):
        with pytest.raises(InvalidOptionError, match="progress="):
            check_progress(wrong)


def test_a_bar_needs_rich(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress_bar, "find_spec", lambda _: None)
    assert not progress_bar.is_wanted()
    with pytest.raises(errors.InvalidOptionError):
        connect(tmp_path / "lake", progress="bar")  # type: ignore[arg-type]
    assert not (tmp_path / "lake").exists()
    assert progress_bar.amount(1536, 4096, "bytes") == "1.5 KiB of 4.0 KiB"
    assert progress_bar.amount(7, None, "bytes") == "7 B"
    assert progress_bar.amount(1234, 5678, "rows") == "1,234/5,678 rows"


def _on_a_terminal(folder: Path) -> tuple[str, str]:
    """Runs the program with stderr on a terminal; returns what it printed, and what was drawn."""
    main, worker = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in {"CI", progress_bar.SWITCH}}
    drawn = b""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        stdout=subprocess.PIPE,
        stderr=worker,
        env={**kept, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(worker)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (process.poll() is None or select.select([main], [], [], 0)[0]):
            if select.select([main], [], [], 0.1)[0]:
                try:
                    drawn += os.read(main, 65536)
                except OSError:  # the other end is closed
                    break
        printed, _ = process.communicate(timeout=30)
    os.close(main)
    assert process.returncode == 0, drawn.decode()
    return printed.decode(), ESCAPES.sub("", drawn.decode())


def test_a_bar_is_drawn_on_a_terminal(tmp_path: Path) -> None:
    printed, drawn = _on_a_terminal(tmp_path / "lake")
    assert printed.split() == ["1", "1"]
    assert "compact sales.shown" in drawn
    assert "12/12 rows" in drawn
    assert "4 files into 1" in drawn
    assert "quiet" not in drawn


def test_bars_are_wanted_on_terminals_only_and_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", progress_bar.SWITCH, "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert not progress_bar.is_wanted()  # pytest holds stderr
    main, worker = pty.openpty()
    with os.fdopen(worker, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert progress_bar.is_wanted()
        for name, value, wanted, asked in (
            ("CI", "true", False, True),
            ("CI", "", True, True),
            (progress_bar.SWITCH, "0", False, False),
            (progress_bar.SWITCH, "1", True, True),
            ("TERM", "dumb", False, False),
        ):
            with monkeypatch.context() as patched:
                patched.setenv(name, value)
                assert progress_bar.is_wanted() == wanted, (name, value)
                assert progress_bar.is_wanted(asked=True) == asked, (name, value)
    assert not progress_bar.is_wanted()  # closed
    monkeypatch.undo()
    os.close(main)
