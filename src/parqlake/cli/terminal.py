"""Output for people: tables that fit the terminal, and a pager for what does not."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from parqlake.cli.fitting import GAP, LEAST, Fitted, Wanted, fit
from parqlake.cli.report import Column, Kind, Listing, Record, Report
from parqlake.cli.values import ABSENT, for_people, printable

_FEW_ROWS = 3
"""So few rows of a table that is too wide are shown one below the other, with all their columns."""
_INDENT = 2
_LESS = {"LESS": "FRSX", "LESSCHARSET": "utf-8"}
_STATUSES = {
    "error": "bold red",
    "failed": "bold red",
    "warning": "yellow",
    "missing": "yellow",
    "ok": "green",
    "succeeded": "green",
}


class Terminal:
    """Draws reports and rows on the terminal that stdout is."""

    def __init__(self, console: Console | None = None) -> None:
        """Rich finds out how wide it is and whether it has colours; `NO_COLOR` is heard."""
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._styles: dict[str, tuple[str, str]] = {}

    def report(self, report: Report) -> None:
        """Draws the parts one below the other, with headings if there are several."""
        self._paged(chain.from_iterable(self._part(part, place, len(report)) for place, part in enumerate(report)))

    def rows(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Any]], *, wide: bool, transposed: bool
    ) -> list[str]:
        """Draws rows of data; returns the columns that found no room.

        Args:
            columns: their names and kinds.
            rows: the values.
            wide: draws all columns as wide as they are, for a pager to scroll sideways.
            transposed: draws one row below the other, a line for each column.
        """
        shown = [[for_people(value, column.kind) for value, column in zip(row, columns, strict=True)] for row in rows]
        wanted = _wanted(columns, shown)
        fitted = fit(wanted, self._console.width)
        if wide:
            fitted = Fitted(tuple(range(len(columns))), tuple(column.width for column in wanted))
        left_out = [column.name for place, column in enumerate(columns) if place not in fitted.kept]
        if transposed or (left_out and len(rows) <= _FEW_ROWS):
            self._paged(self._blocks(columns, shown))
            return []
        self._paged(self._table(columns, shown, fitted))
        return left_out

    # -------------------------------------------------------------------------------------------- parts

    def _part(self, part: Record | Listing, place: int, parts: int) -> Iterator[str]:
        if place:
            yield ""
        if part.name is not None and parts > 1:
            yield from self._drawn(Text(part.name.replace("_", " "), "bold"))
        indent = _INDENT if part.name is not None and parts > 1 else 0
        if isinstance(part, Record):
            yield from self._drawn(Padding(_fields(part), (0, 0, 0, indent)))
        elif not part.rows:
            yield from self._drawn(Padding(Text(part.empty, "dim"), (0, 0, 0, indent)))
        else:
            shown = [
                [for_people(value, column.kind) for value, column in zip(row, part.columns, strict=True)]
                for row in part.rows
            ]
            used = [place for place in range(len(part.columns)) if any(row[place] != ABSENT for row in shown)]
            columns = [part.columns[place] for place in used]
            shown = [[row[place] for place in used] for row in shown]
            fitted = fit(_wanted(columns, shown), self._console.width - indent)
            yield from self._table(columns, shown, fitted, indent=indent)

    def _table(
        self, columns: Sequence[Column], shown: Sequence[Sequence[str]], fitted: Fitted, *, indent: int = 0
    ) -> Iterator[str]:
        """The lines of a table. Rich's own tables take a hundred times as long, which ten thousand rows make felt."""
        kept = [(place, columns[place], width) for place, width in zip(fitted.kept, fitted.widths, strict=True)]
        bold, plain = self._codes("bold"), ("", "")
        yield self._line([(printable(column.title), column, width, bold) for _, column, width in kept], indent)
        for row in shown:
            styles = [_style(row[place], column) for place, column, _ in kept]
            codes = [self._codes(style) if style else plain for style in styles]
            texts = [
                self._wrapped(row[place], width) if column.wraps and len(row[place]) > width else [row[place]]
                for place, column, width in kept
            ]
            for line in zip_longest(*texts, fillvalue=""):
                cells = [
                    (text, column, width, code)
                    for text, (_, column, width), code in zip(line, kept, codes, strict=True)
                ]
                yield self._line(cells, indent)

    def _wrapped(self, text: str, width: int) -> list[str]:
        return [line.plain.rstrip() for line in Text(text).wrap(self._console, width, overflow="fold")]

    def _line(self, cells: Sequence[tuple[str, Column, int, tuple[str, str]]], indent: int) -> str:
        drawn = []
        for text, column, width, (before, after) in cells:
            length = len(text) if text.isascii() else cell_len(text)
            cut = text if length <= width else set_cell_size(text, width - 1) + "…"
            space = " " * (width - length)
            drawn.append(f"{space}{before}{cut}{after}" if column.kind.is_number else f"{before}{cut}{after}{space}")
        return (" " * indent + (" " * GAP).join(drawn)).rstrip()

    def _codes(self, style: str) -> tuple[str, str]:
        """What turns a style on and off on this terminal; nothing where it has no colours."""
        if style not in self._styles:
            with self._console.capture() as caught:
                self._console.print(Text("x", style), end="")
            before, _, after = caught.get().partition("x")
            self._styles[style] = before, after
        return self._styles[style]

    def _blocks(self, columns: Sequence[Column], shown: Sequence[Sequence[str]]) -> Iterator[str]:
        """One row below the other, values whole."""
        for number, row in enumerate(shown, 1):
            yield from self._drawn(Text(f"row {number:,}", "bold"))
            grid = _grid()
            for column, value in zip(columns, row, strict=True):
                grid.add_row(Text(printable(column.name), "dim"), _cell(value, column))
            yield from self._drawn(Padding(grid, (0, 0, 0, _INDENT)))

    def _drawn(self, what: Any) -> Iterator[str]:
        with self._console.capture() as caught:
            self._console.print(what)
        for line in caught.get().splitlines():
            yield line.rstrip()

    def _paged(self, lines: Iterable[str]) -> None:
        """Writes what fits on the screen as it is, and more than that to a pager."""
        ahead = iter(lines)
        screen = list(islice(ahead, max(1, self._console.height - 2)))
        following = next(ahead, None)
        command = None if following is None else pager()
        if command is None:
            rest = ahead if following is None else chain([following], ahead)
            for line in chain(screen, rest):
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            return
        assert following is not None
        _page(command, chain(screen, [following], ahead))


def pager() -> list[str] | None:
    """The program that long output is read with: `PARQLAKE_PAGER` or `PAGER`, else less; None for none."""
    said = os.environ.get("PARQLAKE_PAGER", os.environ.get("PAGER", "less"))
    command = shlex.split(said)
    if not command or command == ["cat"] or shutil.which(command[0]) is None or not sys.stdin.isatty():
        return None
    return command


def _page(command: list[str], lines: Iterable[str]) -> None:
    environment = {**_LESS, **os.environ}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8")  # noqa: S603
    assert process.stdin is not None
    try:
        for line in lines:
            process.stdin.write(f"{line}\n")
        process.stdin.close()
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # who reads has seen enough
    while True:
        try:
            process.wait()
            return
        except KeyboardInterrupt:  # it belongs to the pager, which goes on
            continue


def _wanted(columns: Sequence[Column], shown: Sequence[Sequence[str]]) -> list[Wanted]:
    found = []
    for place, column in enumerate(columns):
        width = max([cell_len(printable(column.title)), *(cell_len(row[place]) for row in shown)])
        whole = column.kind.is_number or column.kind is Kind.TIME
        found.append(Wanted(width, whole, column.rank, LEAST if column.is_data else 2 * LEAST))
    return found


def _fields(part: Record) -> Table:
    grid = _grid()
    for column, value in part.fields:
        shown = for_people(value, column.kind)
        if shown != ABSENT:
            grid.add_row(Text(printable(column.title), "dim"), _cell(shown, column))
    return grid


def _grid() -> Table:
    grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _cell(shown: str, column: Column) -> Text:
    return Text(shown, _style(shown, column))


def _style(shown: str, column: Column) -> str:
    if shown == ABSENT:
        return "dim"
    if column.name in ("status", "severity"):
        return _STATUSES.get(shown, "")
    return "cyan" if column.kind is Kind.TIME else ""
