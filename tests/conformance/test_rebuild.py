"""A lost catalog is made again from the files, as far as they tell; where they do not, somebody is asked."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
import uuid_utils

import parqlake
from parqlake import Lake, errors
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import ORDERS, TypeCase, bag, ids, orders, stored


@pytest.fixture(autouse=True)
def one_catalog(backend: Backend) -> None:
    if backend.catalog != "sqlite":
        pytest.skip("a new catalog is filled by the calls that every other test makes; SQLite covers it")


@pytest.fixture
def new(tmp_path: Path) -> str:
    """Where the new catalog goes."""
    return f"sqlite:///{tmp_path / 'new.sqlite'}"


def test_appended_tables_come_back_whole(lake: Lake, place: LakePlace, new: str, types: tuple[TypeCase, ...]) -> None:
    by_region = lake.create_table("sales.by_region", ORDERS, partition_by=["region"], sort_by=["id"])
    by_region.append(orders(20))
    by_region.add_column("note", pa.string())
    by_region.append(orders(20, first=20).append_column("note", pa.array(["x"] * 20)))
    for case in types:
        lake.create_table(f"types.{case.name}", case.schema).append(case.table())
    names = lake.tables()
    before = {name: (lake.table(name).schema(), bag(lake.table(name).scan().to_arrow())) for name in names}
    files = stored(place.root)
    lake.close()
    planned = parqlake.rebuild(place.root, catalog=new, dry_run=True)
    assert not Path(new.removeprefix("sqlite:///")).exists()
    report = parqlake.rebuild(place.root, catalog=new)
    assert report.tables == planned.tables
    assert report.tables["sales.by_region"] == (2, 40)
    assert (report.skipped, report.unreadable) == ((), ())
    with parqlake.connect(place.root, catalog=new) as rebuilt:
        assert rebuilt.tables() == names
        for name, (schema, rows) in before.items():
            assert (rebuilt.table(name).schema(), bag(rebuilt.table(name).scan().to_arrow())) == (schema, rows), name
        again = rebuilt.table("sales.by_region")
        assert (again.partition_by, again.sort_by) == (("region",), ("id",))
        assert bag(again.scan(version=1).to_arrow()) == bag(orders(20))
        assert again.scan("region = 'eu' and id >= 20").explain().files_read == 1
        assert rebuilt.check(full=True).findings == ()
        again.append(orders(1, first=99).append_column("note", pa.array(["y"])))
        assert ids(again.scan("note = 'y'").to_arrow()) == [99]
    assert set(stored(place.root)) > set(files)
    with pytest.raises(errors.CatalogMismatchError):  # the root belongs to the new catalog now
        place.connect()


def test_files_that_may_have_replaced_one_another_are_for_the_caller_to_judge(
    lake: Lake, place: LakePlace, new: str
) -> None:
    lake.create_table("a.kept", ORDERS).append(orders(5))
    changed = lake.create_table("a.changed", ORDERS)
    changed.append(orders(10))
    changed.delete("id = 3")
    filesystem, root = fsspec.core.url_to_fs(place.root)
    torn = f"{changed.location}/part-{uuid_utils.uuid7()}.parquet"
    filesystem.pipe_file(f"{root}/{torn}", b"PAR1")
    lake.close()
    before = stored(place.root)
    with pytest.raises(errors.AmbiguousFilesError, match=r"a\.changed: 1 file\(s\) by append, 1 file\(s\) by delete"):
        parqlake.rebuild(place.root, catalog=new)
    with pytest.raises(errors.InvalidOptionError, match="ambiguous='newest'"):
        parqlake.rebuild(place.root, catalog=new, ambiguous="newest")
    assert stored(place.root) == before
    assert parqlake.rebuild(place.root, catalog=new, ambiguous="union", dry_run=True).tables["a.changed"] == (2, 19)
    report = parqlake.rebuild(place.root, catalog=new, ambiguous="skip")
    assert (dict(report.tables), report.skipped) == ({"a.kept": (1, 5)}, ("a.changed",))
    assert report.unreadable == (torn,)
    with pytest.raises(errors.AlreadyExistsError, match="move it away"):
        parqlake.rebuild(place.root, catalog=new, ambiguous="skip")
    with parqlake.connect(place.root, catalog=new) as rebuilt:
        assert rebuilt.tables() == ["a.kept"]
        rebuilt.vacuum(0, force=True)  # knows nothing of the other table, and so leaves it alone
    assert set(before) <= set(stored(place.root))


def test_where_nothing_tells_of_a_table_nothing_is_made(tmp_path: Path, new: str, backend: Backend) -> None:
    if backend.store != "local" or backend.engine != "pyarrow":
        pytest.skip("no lake takes part")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(errors.LakeNotFoundError, match="nothing to rebuild"):
        parqlake.rebuild(tmp_path, catalog=new)
