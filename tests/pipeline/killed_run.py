"""A run of the shop in a process of its own, which dies by kill -9 when a phase of a step begins."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pipeline_support import shop

import parqlake
from parqlake.spark import session


def main(folder: str, phase: str, step: str) -> None:
    def die(now: str, where: str) -> None:
        if (now, where) == (phase, step):
            os.kill(os.getpid(), signal.SIGKILL)

    lake = parqlake.connect(Path(folder) / "warehouse", progress=False)
    shop(lake, lambda: session(master="local[2]", memory="1g"), Path(folder) / "landing").run(run_id="2", on_phase=die)


if __name__ == "__main__":
    main(*sys.argv[1:])
