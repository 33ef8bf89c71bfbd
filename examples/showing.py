"""How the examples show what they do: steps, facts and checks, and a folder of their own."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARKER = ".parqlake-demo"


class Show:
    """Prints the tour: headings, facts, checks; in colour on a terminal only."""

    def __init__(self) -> None:
        """Begins with nothing failed and nothing timed."""
        self.failed = 0
        self.checked = 0
        self.timings: list[tuple[str, float]] = []
        self._colour = sys.stdout.isatty()
        self._step = 0

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One step of the tour, timed."""
        self._step += 1
        print(self._styled("1;36", f"\n{self._step}. {title}"))
        started = time.perf_counter()
        yield
        self.timings.append((title, time.perf_counter() - started))

    def fact(self, text: object) -> None:
        """Something worth knowing."""
        for line in str(text).splitlines():
            print(f"   {line}")

    def check(self, text: str, held: bool) -> None:
        """Something that must hold."""
        self.checked += 1
        self.failed += not held
        print("   " + (self._styled("32", "ok    ") if held else self._styled("1;31", "BROKEN")) + f" {text}")

    def result(self, folder: Path, seconds: float) -> int:
        """Says how many promises held; returns 1 if one was broken, 0 if not."""
        held = self.checked - self.failed
        print(f"\n{held} of {self.checked} promises held, {seconds:.1f} s in all; see {folder}/")
        return 1 if self.failed else 0

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def fresh_folder(folder: Path) -> None:
    """Makes the demo's folder, and replaces it only if an earlier run of the demo made it."""
    if folder.exists():
        if not (folder / MARKER).is_file():
            sys.exit(f"{folder} is there already and is no demo lake; move it away, or name another: --folder other")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).write_text("Made by an example of parqlake, which replaces this folder on its next run.\n")


def parquet_files(folder: Path) -> list[Path]:
    """Every Parquet file on the disk, whether or not a version refers to it."""
    return sorted(folder.rglob("*.parquet"))


def megabytes(size: float) -> str:
    """A size for people."""
    return f"{size / 1_000_000:,.1f} MB"
