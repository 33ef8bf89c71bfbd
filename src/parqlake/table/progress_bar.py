"""A bar on the terminal for work that takes long, drawn by rich; nothing where nobody looks on, or without rich."""

from __future__ import annotations

import os
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parqlake.table.progress import Progress

DELAY_SECONDS = 0.5
"""What is over sooner is never shown."""
SWITCH = "PARQLAKE_PROGRESS"
"""The environment variable that turns bars off."""
_OFF = ("0", "false", "no", "off")


def is_wanted(*, asked: bool = False) -> bool:
    """Whether a bar is shown: stderr is a terminal, nobody turned bars off, and this is no CI job unless `asked`."""
    if os.environ.get(SWITCH, "").strip().lower() in _OFF or os.environ.get("TERM") == "dumb":
        return False
    if not asked and os.environ.get("CI", "").strip().lower() not in ("", *_OFF):
        return False
    try:
        attached = sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False
    return attached and find_spec("rich") is not None


def amount(done: int, total: int | None, unit: str) -> str:
    """How much is done, in words.

    Example:
        >>> amount(3, 12, "files"), amount(5 * 1024**2, None, "bytes")
        ('3/12 files', '5.0 MiB')
    """
    if unit == "bytes":
        from parqlake.core.maintenance.health import in_words

        return in_words(done) if total is None else f"{in_words(done)} of {in_words(total)}"
    return f"{done:,} {unit}" if total is None else f"{done:,}/{total:,} {unit}"


class Bar:
    """The line of one call; appears once that has gone on for a moment, and goes when it is closed."""

    def __init__(self) -> None:
        """Shows nothing yet."""
        self._lock = threading.Lock()
        self._latest: Progress | None = None
        self._task: Any = None
        self._closed = False
        self._timer = threading.Timer(DELAY_SECONDS, self._show)
        self._timer.daemon = True

    def __call__(self, progress: Progress) -> None:
        """Takes down how far the call has come."""
        with self._lock:
            if self._latest is None:
                self._timer.start()
            self._latest = progress
            if self._task is not None:
                _DISPLAY.update(self._task, progress)

    def close(self) -> None:
        """Takes the line away."""
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._task is not None:
                _DISPLAY.remove(self._task)
                self._task = None

    def _show(self) -> None:
        with self._lock:
            if not self._closed and self._latest is not None:
                self._task = _DISPLAY.add(self._latest)


class _Display:
    """The lines of all calls under way in this process: a terminal has room for one display."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: Any = None
        self._count = 0

    def add(self, progress: Progress) -> Any:
        with self._lock:
            if self._lines is None:
                self._lines = _new_lines()
                self._lines.start()
            self._count += 1
            task = self._lines.add_task(_title(progress), total=progress.total, **_fields(progress))
            self._lines.update(task, completed=progress.done)
            return task

    def update(self, task: Any, progress: Progress) -> None:
        with self._lock:
            self._lines.update(
                task,
                description=_title(progress),
                total=progress.total,
                completed=progress.done,
                **_fields(progress),
            )

    def remove(self, task: Any) -> None:
        with self._lock:
            self._lines.remove_task(task)
            self._count -= 1
            if not self._count:
                self._lines.stop()
                self._lines = None


_DISPLAY = _Display()


def _title(progress: Progress) -> str:
    return f"{progress.operation} {progress.table}"


def _fields(progress: Progress) -> dict[str, str]:
    return {"amount": amount(progress.done, progress.total, progress.unit), "note": progress.message}


def _new_lines() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Lines

    def text(template: str) -> TextColumn:
        return TextColumn(template, markup=False)  # a name is data: it is never read as markup

    return Lines(
        SpinnerColumn(),
        text("{task.description}"),
        BarColumn(),
        text("{task.fields[amount]}"),
        TimeElapsedColumn(),
        text("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
