"""On a terminal: tables that fit, a pager for long ones, questions before what cannot be undone, Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parqlake

Orders = Callable[[int, int], pa.Table]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Screen:
    """A command on a terminal of 80 by 24."""

    def __init__(self, forker: Any, arguments: tuple[object, ...], folder: Path, environ: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._forker = forker
        forker.start(arguments, folder, environ, [os.ttyname(theirs)] * 3)
        self.raw = ""
        self._read(20)  # from now on the command has it open, too
        os.close(theirs)

    @property
    def text(self) -> str:
        return ESCAPE.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, text: str) -> None:
        """Reads on until the text is there."""
        deadline = time.monotonic() + 60
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.text}"
            if not self._read(0.5):
                assert text in self.text, self.text

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """Reads what is left, and returns the exit code."""
        deadline = time.monotonic() + 60
        while self._read(1):
            assert time.monotonic() < deadline, f"it does not end: {self.text}"
        os.close(self._ours)
        code: int = self._forker.code()
        return code

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.raw += data.decode()
        return bool(data)


@pytest.fixture
def terminal(lake: Path, forker: Any, clean_environ: dict[str, str]) -> Callable[..., Screen]:
    def open_screen(*arguments: object, **environ: str) -> Screen:
        return Screen(forker, arguments, lake.parent, {**clean_environ, "PARQLAKE_LAKE": str(lake), **environ})

    return open_screen


def test_a_table_is_drawn_in_colour_and_fits(terminal: Callable[..., Screen]) -> None:
    screen = terminal("log", "sales.orders")
    assert screen.end() == 0
    assert "\x1b[1m" in screen.raw
    assert max(map(len, screen.text.splitlines())) <= 80
    assert "from 200" in screen.text
    plain = terminal("show", "sales.orders", NO_COLOR="1", PAGER="cat")
    assert plain.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain.raw)
    assert "last versions" in plain.text


def test_a_wide_table_stays_readable(terminal: Callable[..., Screen], lake: Path) -> None:
    with parqlake.connect(lake) as made:
        row = {f"a_long_column_name_{number}": ["x" * 30] * 5 for number in range(40)}
        made.write(pa.table(row), "odd.wide", mode="overwrite")
    few = terminal("head", "odd.wide", "-n", "1", PAGER="cat")
    assert few.end() == 0
    assert few.text.count("x" * 30) == 40
    assert "a_long_column_name_39" in few.text
    many = terminal("head", "odd.wide", PAGER="cat")
    assert many.end() == 0
    lines = many.text.splitlines()
    assert max(len(line) for line in lines if "x" in line and "room" not in line) <= 80
    assert "columns found no room: " in many.text
    assert "--transpose" in many.text


def test_names_cannot_drive_the_terminal_either(terminal: Callable[..., Screen]) -> None:
    name = "a\x1b]0;pwned\x07b"
    for arguments in (
        ("sql", f'select 1 as "{name}"'),
        ("sql", f'select 1 as "{name}"', "--transpose"),
        ("explain", "sales.orders", "-w", f"region = '{name}'"),
    ):
        screen = terminal(*arguments, PAGER="cat")
        assert screen.end() == 0
        assert "\x1b]" not in screen.raw
        assert "a\\x1b]0;pwned\\x07b" in screen.text


def test_many_rows_are_paged(terminal: Callable[..., Screen]) -> None:
    screen = terminal("sql", "select i, 'row ' || i as name from range(12000) t(i)", PARQLAKE_PAGER="less -R")
    screen.wait_for("row 15")
    assert "row 9999" not in screen.text
    screen.type("G")
    screen.wait_for("row 9999")
    screen.type("q")
    assert screen.end() == 0
    assert "first 10,000 rows" in screen.text
    assert "row 10000" not in screen.text
    whole = terminal("sql", "select 'row ' || i as name from range(10005) t(i)", "--limit", "0", PAGER="cat")
    assert whole.end() == 0
    assert "row 10004" in whole.text
    assert "(10,005 rows)" in whole.text


def test_somebody_is_asked_before_rows_are_deleted(
    terminal: Callable[..., Screen], lake: Path, make_orders: Orders
) -> None:
    with parqlake.connect(lake) as made:
        table: Any = made.create_table("odd.gone", make_orders(0, 0).schema)
        table.append(make_orders(0, 10))
        no = terminal("delete", "odd.gone", "-w", "id < 3")
        no.wait_for("Delete 3 of 10 rows of odd.gone? [y/N] ")
        no.type("\n")
        assert no.end() == 2
        assert table.version == 1
        yes = terminal("delete", "odd.gone", "-w", "id < 3")
        yes.wait_for("[y/N] ")
        yes.type("y\n")
        assert yes.end() == 0
        assert table.scan().count() == 7


def test_control_c_ends_it_with_130_and_nothing_done(terminal: Callable[..., Screen]) -> None:
    screen = terminal("delete", "sales.orders", "-w", "true")
    screen.wait_for("[y/N] ")
    screen.type("\x03")
    assert screen.end() == 130
    assert "Traceback" not in screen.text


def test_the_explorer_runs_until_it_is_interrupted(terminal: Callable[..., Screen]) -> None:
    screen = terminal("ui", "--port", "0")
    screen.wait_for("Ctrl-C)")
    found = re.search(r"http://127\.0\.0\.1:\d+/", screen.text)
    assert found is not None
    with urllib.request.urlopen(found.group(), timeout=30) as page:
        assert "sales.orders" in page.read().decode()
    screen.type("\x03")
    assert screen.end() == 0
    assert "Traceback" not in screen.text
