"""TPC-H tables, made once for a scale and kept beside the peers' environments."""

from __future__ import annotations

import subprocess
from pathlib import Path

from peers import HOME, peer_python

TPCHGEN = "tpchgen-cli==4.0.0"


def tpch(table: str, scale: float, parts: int) -> list[Path]:
    """The Parquet files of a table, in the order of its keys.

    Raises:
        PeerMissing: the generator cannot be installed here.
    """
    folder = HOME / "data" / f"tpch-{scale:g}-{parts}"
    found = sorted((folder / table).glob("*.parquet"), key=_number)
    if len(found) == parts:
        return found
    tool = Path(peer_python("tpch", TPCHGEN)).with_name("tpchgen-cli")
    command = [str(tool), "parquet", "-s", f"{scale:g}", f"--tables={table}", f"--parts={parts}"]
    subprocess.run([*command, f"--output-dir={folder}"], check=True, capture_output=True)
    return sorted((folder / table).glob("*.parquet"), key=_number)


def _number(path: Path) -> int:
    return int(path.suffixes[-2].strip(".")) if len(path.suffixes) > 1 else 0
