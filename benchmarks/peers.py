"""Peers of a benchmark, each in an environment of its own, so that what one needs does not bind another."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / ".venv" / "peers"
"""Outside of version control."""


class PeerMissing(Exception):  # noqa: N818 (not an error: the benchmark goes on without the peer)
    """The peer cannot be had here; the message says why."""


def peer_python(name: str, *requirements: str) -> str:
    """The Python of an environment that holds these packages; made on first use, made again if they change.

    Raises:
        PeerMissing: the packages cannot be installed here.
    """
    folder = HOME / name
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    stamp = folder / "requirements.txt"
    wanted = "\n".join(requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    print(f"installing {' '.join(requirements)} into .venv/peers/{name}", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise PeerMissing(f"cannot be installed: {reason}")
    stamp.write_text(wanted)
    return str(python)
