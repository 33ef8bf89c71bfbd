"""A damaged or missing file is an error that names it, never wrong rows."""

from __future__ import annotations

import fsspec
import pytest

from parqlake import Table, errors
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import data_files, ids, orders
from parqlake.testing.plugin import Feed


def _change(place: LakePlace, path: str, content: bytes | None) -> None:
    filesystem, root = fsspec.core.url_to_fs(place.root)
    if content is None:
        filesystem.rm(f"{root}/{path}")
    else:
        filesystem.pipe_file(f"{root}/{path}", content)


def _content(place: LakePlace, path: str) -> bytes:
    filesystem, root = fsspec.core.url_to_fs(place.root)
    content: bytes = filesystem.cat_file(f"{root}/{path}")
    return content


@pytest.fixture
def path(table: Table, place: LakePlace, feed: Feed) -> str:
    """The second of three files."""
    for first in range(0, 30, 10):
        table.append(feed(orders(10, first=first)), compression="none")
    (found,) = (file.path for file in table.scan("id = 15").plan.files)
    assert found in data_files(place.root)
    return found


def test_a_missing_file_is_named(table: Table, place: LakePlace, path: str) -> None:
    _change(place, path, None)
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.scan().to_arrow()
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.scan("id = 15").to_pandas()
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.scan("id = 15").count()
    assert ids(table.scan("id < 10").to_arrow()) == list(range(10))


@pytest.mark.parametrize("length", [0, 3, 100], ids=["empty", "tiny", "short"])
def test_a_short_file_is_named(table: Table, place: LakePlace, path: str, length: int) -> None:
    _change(place, path, _content(place, path)[:length])
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.scan().to_arrow()
    assert table.scan(version=1).to_arrow().num_rows == 10


def test_a_file_of_something_else_is_named(table: Table, place: LakePlace, path: str) -> None:
    _change(place, path, b"x" * len(_content(place, path)))
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.scan().to_arrow()


def test_one_changed_byte_of_the_data_is_found(table: Table, place: LakePlace, path: str, backend: Backend) -> None:
    if backend.engine == "duckdb":
        pytest.skip("DuckDB writes no page checksums, so a changed value cannot be told from a right one")
    original = _content(place, path)
    needle = (15).to_bytes(8, "little")
    at = original.find(needle)
    assert at > 0
    changed = bytearray(original)
    changed[at] ^= 0x40
    _change(place, path, bytes(changed))
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.scan().to_arrow()
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.scan("id >= 10 and amount > 1").count()


def test_overwriting_a_part_of_a_damaged_file_changes_nothing(
    table: Table, place: LakePlace, path: str, feed: Feed
) -> None:
    _change(place, path, b"x" * 50)
    before = data_files(place.root)
    with pytest.raises(errors.DataCorruptionError, match=path):
        table.overwrite(feed(orders(0)), where="id = 15")
    assert table.version == 3
    assert data_files(place.root) == before
    table.overwrite(feed(orders(0)), where="id >= 10 and id < 20")
    assert ids(table.scan().to_arrow()) == [*range(10), *range(20, 30)]
