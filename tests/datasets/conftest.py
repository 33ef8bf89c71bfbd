"""Directories on each kind of file system."""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from datasets_support import Fault, faulty_memory

from parqlake.datasets.place import Place


@pytest.fixture(params=["local", "memory", "objects", "dir"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A directory that does not exist yet."""
    match request.param:
        case "local":
            return Place(tmp_path / "data")
        case "memory":
            return Place(f"memory://data-{uuid.uuid4()}")
        case "objects":  # nothing but whole objects: no folders, no renames
            return Place("bucket/data", filesystem=faulty_memory(Fault(0), folders=False))
    import fsspec

    inner = fsspec.filesystem("dir", path=str(tmp_path), fs=fsspec.filesystem("file"))
    return Place("data", filesystem=inner)


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what is repeated for each call forces a lot to disk."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)
