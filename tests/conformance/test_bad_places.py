"""A lake is refused, with a hint, where it cannot be: files, foreign catalogs, folders without rights."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

import parqlake
from parqlake import errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, orders, stored

NOBODY = 65534


@contextmanager
def _without_privileges() -> Iterator[None]:
    """Runs as a user to whom permissions apply; root may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def own_place(place: LakePlace) -> Iterator[LakePlace]:
    """A place on disk that belongs to a user without privileges."""
    if place.backend.store != "local":
        pytest.skip("only folders have permissions")
    with _without_privileges(), tempfile.TemporaryDirectory() as folder:
        catalog = place.catalog
        if "postgres" not in place.backend.catalog:
            kind = place.backend.catalog
            catalog = f"{kind}:///{folder}/catalog.{kind}"
        yield replace(place, root=f"{folder}/lake", catalog=catalog)


def test_a_path_that_is_a_file(place: LakePlace) -> None:
    filesystem, path = fsspec.core.url_to_fs(place.root)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    filesystem.pipe_file(path, b"a file")
    with pytest.raises(errors.PathIsFileError, match="is a file"):
        place.connect()
    assert filesystem.cat_file(path) == b"a file"


def test_a_folder_below_a_file(place: LakePlace) -> None:
    if place.backend.store == "memory":
        pytest.skip("memory:// has no real folders, so a name can be a file and a prefix")
    Path(place.root).write_bytes(b"a file")
    with pytest.raises(errors.PathIsFileError):
        replace(place, root=f"{place.root}/inside").connect()


def test_a_lake_that_must_be_there_already(place: LakePlace) -> None:
    with pytest.raises(errors.LakeNotFoundError, match="there is no lake at"):
        parqlake.connect(place.root, catalog=place.catalog, create=False)
    assert stored(place.root) == {}
    with place.connect() as lake:
        lake.create_table("sales.orders", ORDERS)
    with parqlake.connect(place.root, catalog=place.catalog, create=False) as lake:
        assert lake.tables() == ["sales.orders"]


def test_the_catalog_of_another_lake(place: LakePlace, tmp_path: Path) -> None:
    with place.connect() as lake:
        lake.create_table("sales.orders", ORDERS).append(orders(3))
    with pytest.raises(errors.CatalogMismatchError, match="belongs to another lake"):
        replace(place, root=f"{place.root}-second").connect()
    assert stored(f"{place.root}-second") == {}
    second = replace(place, root=f"{place.root}-third", catalog=f"sqlite:///{tmp_path}/third.sqlite")
    second.connect().close()
    with pytest.raises(errors.CatalogMismatchError, match="connect with"):
        replace(second, catalog=place.catalog).connect()
    with pytest.raises(errors.CatalogMismatchError, match="connect with"):
        replace(place, catalog=second.catalog).connect()
    with place.connect() as lake:
        assert lake.table("sales.orders").scan().count() == 3


def test_the_catalog_of_another_lake_without_tables(place: LakePlace) -> None:
    place.connect().close()
    with pytest.raises(errors.CatalogMismatchError):
        replace(place, root=f"{place.root}-second").connect()
    with place.connect() as lake:
        lake.create_table("sales.orders", ORDERS)
        lake.drop_table("sales.orders")
    with pytest.raises(errors.CatalogMismatchError):
        replace(place, root=f"{place.root}-second").connect()
    assert stored(f"{place.root}-second") == {}


def test_a_damaged_marker(place: LakePlace) -> None:
    with place.connect() as lake:
        lake.create_table("sales.orders", ORDERS)
    filesystem, root = fsspec.core.url_to_fs(place.root)
    (marker,) = [path for path in stored(place.root) if path.endswith(".json")]
    good = filesystem.cat_file(f"{root}/{marker}")
    for content in (b"", b"not json", b"[]", b"{}", json.dumps({"lake_id": "another"}).encode()):
        filesystem.pipe_file(f"{root}/{marker}", content)
        with pytest.raises(errors.CatalogMismatchError):
            place.connect()
    filesystem.pipe_file(f"{root}/{marker}", good)
    with place.connect() as lake:
        assert lake.tables() == ["sales.orders"]


def test_a_read_only_folder(own_place: LakePlace) -> None:
    root = Path(own_place.root)
    root.mkdir()
    root.chmod(0o555)
    with pytest.raises(errors.StoreReadOnlyError, match="right to write"):
        own_place.connect()
    assert list(root.iterdir()) == []


def test_a_folder_that_becomes_read_only(own_place: LakePlace) -> None:
    root = Path(own_place.root)
    with own_place.connect() as lake:
        table = lake.create_table("sales.orders", ORDERS)
        table.append(orders(3))
        folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
        before = stored(own_place.root)
        try:
            for folder in folders:
                folder.chmod(0o555)
            with pytest.raises(errors.StoreReadOnlyError, match="right to write"):
                table.append(orders(3, first=3))
            with pytest.raises(errors.StoreReadOnlyError), lake.transaction() as tx:
                tx.table("sales.orders").append(orders(3, first=3))
            assert table.scan().count() == 3
            assert table.scan().to_arrow().num_rows == 3
        finally:
            for folder in folders:
                folder.chmod(0o755)
        assert stored(own_place.root) == before
        assert table.version == 1
        table.append(orders(3, first=3))
        assert table.scan().count() == 6


def test_a_folder_that_cannot_be_read(own_place: LakePlace) -> None:
    with own_place.connect() as lake:
        lake.create_table("sales.orders", ORDERS)
    root = Path(own_place.root)
    root.chmod(0)
    try:
        with pytest.raises(errors.StoreError, match="right to read"):
            own_place.connect()
    finally:
        root.chmod(0o755)


def test_catalogs_that_are_none(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "note.txt").write_text("no database at all, only a note")
    (tmp_path / "folder").mkdir()
    wrong = [
        "mysql://localhost/lake",
        "",
        "sqlite:///",
        f"sqlite:///{tmp_path}/note.txt",
        f"duckdb:///{tmp_path}/note.txt",
        f"sqlite:///{tmp_path}/folder",
        f"duckdb:///{tmp_path}/folder",
        f"sqlite:///{tmp_path}/missing/catalog.sqlite",
        f"duckdb:///{tmp_path}/missing/catalog.duckdb",
        "postgresql://127.0.0.1:1/nothing",
    ]
    for number, catalog in enumerate(wrong):
        with subtests.test(catalog=catalog):
            with pytest.raises(parqlake.ParqlakeError) as caught:
                parqlake.connect(tmp_path / f"lake{number}", catalog=catalog)
            assert isinstance(caught.value, errors.CatalogError | errors.InputError)
            assert data_left(tmp_path / f"lake{number}") == []
    assert (tmp_path / "note.txt").read_text() == "no database at all, only a note"


def data_left(folder: Path) -> list[str]:
    """What a failed connect left in a folder."""
    return [str(path) for path in folder.rglob("*") if path.is_file()]


def test_a_remote_root_needs_a_catalog() -> None:
    with pytest.raises(errors.InvalidOptionError, match="needs a catalog"):
        parqlake.connect("memory://without-catalog")


def test_roots_that_are_none(subtests: pytest.Subtests) -> None:
    for root in ("", " ", "a\0b", "nothing://x"):
        with subtests.test(root=repr(root)), pytest.raises(errors.InvalidOptionError):
            parqlake.connect(root, catalog="sqlite:///:memory:")


def test_engines_that_are_none(place: LakePlace) -> None:
    with pytest.raises(errors.InvalidOptionError, match="pyarrow, duckdb"):
        place.connect(engine="spork")
    assert stored(place.root) == {}
