"""What the tests of the command line share: the command itself, as a process, and a lake with some history."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parqlake

COMMAND = [sys.executable, "-m", "parqlake.cli.main"]
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PARQLAKE_", "PYTHON")) and name not in ("CI", "NO_COLOR", "PAGER", "FORCE_COLOR")
} | {"TERM": "xterm-256color"}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[list[str]]:
        """Tab-separated lines."""
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def fields(self) -> dict[str, str]:
        """Lines of a name and a value."""
        return {line[0]: line[1] for line in self.lines if len(line) == 2}


Cli = Callable[..., Done]


class Forker:
    """Starts commands as forks of a process that has loaded everything; see `forking_program.py`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._into, self._out_of = process.stdin, process.stdout

    def start(
        self, arguments: Sequence[object], folder: Path, environ: dict[str, str], streams: Sequence[object]
    ) -> None:
        request = {
            "arguments": [str(word) for word in arguments],
            "folder": str(folder),
            "environ": environ,
            "streams": [str(path) for path in streams],
        }
        self._into.write(json.dumps(request) + "\n")
        self._into.flush()

    def code(self) -> int:
        """Waits for the command's end."""
        return int(self._out_of.readline())


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    program = [sys.executable, "-W", "error", str(Path(__file__).with_name("forking_program.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=CLEAN) as process:
        yield Forker(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="session")
def clean_environ() -> dict[str, str]:
    """The environment without what would change what a command says."""
    return dict(CLEAN)


@pytest.fixture(scope="session")
def cli(forker: Forker, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Runs `parqlake` in a process of its own, without a terminal; in a new interpreter if `fresh`."""
    folder = tmp_path_factory.mktemp("streams")

    def run(
        *arguments: object,
        lake: Path | None = None,
        cwd: Path = folder,
        stdin: str = "",
        fresh: bool = False,
        **environ: str,
    ) -> Done:
        named = {} if lake is None else {"PARQLAKE_LAKE": str(lake)}
        streams = [folder / name for name in ("in", "out", "err")]
        for path, content in zip(streams, (stdin, "", ""), strict=True):
            path.write_text(content, encoding="utf-8")
        environment = CLEAN | named | environ
        if fresh:
            with streams[0].open() as source, streams[1].open("w") as out, streams[2].open("w") as err:
                code = subprocess.run(
                    [*COMMAND, *map(str, arguments)],
                    cwd=cwd,
                    env=environment,
                    stdin=source,
                    stdout=out,
                    stderr=err,
                    timeout=120,
                    check=False,
                ).returncode
        else:
            forker.start(arguments, cwd, environment, streams)
            code = forker.code()
        done = Done(code, *(path.read_text(encoding="utf-8") for path in streams[1:]))
        assert "Traceback" not in done.err, done.err
        return done

    return run


def orders(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([("eu", "us")[number % 2] for number in ids], pa.string()),
            "amount": pa.array([number / 4 for number in ids], pa.float64()),
        }
    )


@pytest.fixture(scope="session")
def make_orders() -> Callable[[int, int], pa.Table]:
    """Makes orders with ids from the first number up to the second."""
    return orders


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake for one module: sales.orders with four versions and a tag, and a table of odd values."""
    folder = tmp_path_factory.mktemp("cli") / "warehouse"
    with parqlake.connect(folder) as made:
        table = made.create_table("sales.orders", orders(0, 0).schema, partition_by=["region"])
        for start in (0, 100, 200):
            table.append(orders(start, start + 100), message=f"from {start}")
        table.tag("three", 3)
        table.add_column("note", pa.string(), default="none")
        odd = made.create_table(
            "odd.values", pa.schema({"text": pa.string(), "at": pa.timestamp("ns", "UTC"), "raw": pa.binary()})
        )
        odd.append(
            pa.table(
                {
                    "text": ["tab\there", "line\nend", "\x1b[31mred", None, "[bold]x[/bold]"],
                    "at": pa.array([1, 2, 3, None, 253402300800 * 10**6], pa.int64()).cast(pa.timestamp("ns", "UTC")),
                    "raw": [b"\x00\xff", None, b"", b"a", b"b"],
                }
            )
        )
    return folder
