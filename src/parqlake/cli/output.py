"""Where output goes, and in which form: data to stdout, all else to stderr; for a person, a pipe or a program."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from parqlake.cli import plain
from parqlake.cli.report import Record, Report
from parqlake.cli.values import ABSENT, for_people, printable

if TYPE_CHECKING:
    from parqlake.cli.exits import Failure
    from parqlake.cli.terminal import Terminal


class Output:
    """What a command says; the first line of every method is the only place that knows who listens."""

    def __init__(self, *, as_json: bool) -> None:
        """JSON if it is asked for; else tables on a terminal, and tab-separated lines in a pipe."""
        self.as_json = as_json
        self.is_terminal = not as_json and sys.stdout.isatty()

    @cached_property
    def terminal(self) -> Terminal:
        """Who draws on the terminal; loads rich."""
        from parqlake.cli.terminal import Terminal

        return Terminal()

    def report(self, report: Report) -> None:
        """Says what a command found or did."""
        if self.as_json:
            self.lines([plain.dumps(plain.document(report), indent=2 if sys.stdout.isatty() else None)])
        elif self.is_terminal:
            self.terminal.report(report)
        else:
            self.lines(plain.tsv(report))

    def text(self, text: str, document: dict[str, Any]) -> None:
        """Says what has a text of its own, the same for people and pipes."""
        if self.as_json:
            self.lines([plain.dumps(document, indent=2 if sys.stdout.isatty() else None)])
        else:
            self.lines(map(printable, text.split("\n")))

    def lines(self, lines: Iterable[str]) -> None:
        """Writes lines to stdout, as they come."""
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Tells people something beside the data."""
        sys.stderr.write(f"{printable(text)}\n")

    def plan(self, report: Report) -> None:
        """Tells people what is about to happen; on stderr, whatever stdout is."""
        fields = [field for part in report if isinstance(part, Record) for field in part.fields]
        shown = [(column.title, for_people(value, column.kind)) for column, value in fields]
        width = max(len(title) for title, _ in shown)
        for title, value in shown:
            if value != ABSENT:
                sys.stderr.write(f"  {title:{width}}  {value}\n")
        sys.stderr.flush()

    def failure(self, failure: Failure) -> None:
        """Says what went wrong, on stderr; as JSON if that is asked for."""
        text = plain.dumps(failure.to_dict()) if self.as_json else "\n".join(map(printable, str(failure).splitlines()))
        sys.stdout.flush()
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
