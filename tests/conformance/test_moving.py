"""A lake can be moved: nothing in the catalog says where the root is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

import parqlake
from parqlake import errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, bag, ids, orders


def _filled(place: LakePlace) -> None:
    with place.connect() as lake:
        table = lake.create_table("sales.orders", ORDERS, partition_by=["region"])
        table.append(orders(20))
        table.overwrite(orders(0), where="id = 4")


def test_a_moved_root_still_reads_and_writes(place: LakePlace) -> None:
    _filled(place)
    moved = replace(place, root=f"{place.root}-moved")
    filesystem, path = fsspec.core.url_to_fs(place.root)
    filesystem.mv(path, f"{path}-moved", recursive=True)
    with moved.connect() as lake:
        table = lake.table("sales.orders")
        assert ids(table.scan().to_arrow()) == [i for i in range(20) if i != 4]
        assert bag(table.scan(version=1).to_arrow()) == bag(orders(20))
        table.append(orders(2, first=50))
        assert table.scan("id >= 50").count() == 2


def test_a_whole_folder_is_a_lake_that_can_be_copied(tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "here") as lake:
        table = lake.create_table("sales.orders", ORDERS)
        table.append(orders(20))
    shutil.copytree(tmp_path / "here", tmp_path / "there" / "deeper")
    shutil.rmtree(tmp_path / "here")
    with parqlake.connect(tmp_path / "there" / "deeper", create=False) as lake:
        assert bag(lake.table("sales.orders").scan().to_arrow()) == bag(orders(20))
        lake.table("sales.orders").append(orders(1, first=20))
        assert lake.table("sales.orders").version == 2


def test_a_root_without_its_catalog_is_no_new_lake(tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "here") as lake:
        lake.create_table("sales.orders", ORDERS).append(orders(2))
    for file in (tmp_path / "here").glob("catalog.sqlite*"):
        file.unlink()
    with pytest.raises(errors.CatalogError):
        parqlake.connect(tmp_path / "here")
    assert not (tmp_path / "here" / "catalog.sqlite").exists()
