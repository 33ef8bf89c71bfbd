"""Tags name versions; properties are kept, and are the defaults of writes."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from parqlake import Lake, Table, WrittenFile, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import GROUP, ORDERS, orders, state


@pytest.fixture
def filled(table: Table) -> Table:
    """Two versions."""
    table.append(orders(10))
    table.append(orders(10, first=10))
    return table


def test_a_tag_names_the_newest_version_or_another(filled: Table) -> None:
    filled.tag("now")
    filled.tag("then", version=1)
    filled.tag("copy", version="then")
    assert filled.tags() == {"now": 2, "then": 1, "copy": 1}
    filled.append(orders(1, first=99))
    assert filled.scan(version="now").count() == 20


def test_a_tag_moves_when_it_is_set_again(filled: Table) -> None:
    filled.tag("stable", version=1)
    filled.tag("stable", version=2)
    assert filled.tags() == {"stable": 2}
    assert [entry.tags for entry in filled.history()] == [("stable",), ()]


def test_a_tag_can_be_taken_away(filled: Table) -> None:
    filled.tag("gone")
    filled.untag("gone")
    assert filled.tags() == {}
    with pytest.raises(errors.VersionNotFoundError, match='no tag "gone"'):
        filled.untag("gone")
    with pytest.raises(errors.VersionNotFoundError, match='no tag "gone"'):
        filled.scan(version="gone")
    assert filled.scan(version=2).count() == 20


def test_tags_belong_to_one_table(filled: Table, lake: Lake) -> None:
    other = lake.create_table("sales.other", ORDERS)
    other.append(orders(3))
    filled.tag("v")
    other.tag("v")
    assert (filled.tags(), other.tags()) == ({"v": 2}, {"v": 1})


def test_names_that_are_no_tags(filled: Table, lake: Lake) -> None:
    before = state(lake)
    wrong = ["", " ", "7", "a b", "a/b", "../x", "x'y", 'x"y', "ä", "a" * 129, "-x", ".x", None, 7, "a\n"]
    for name in wrong:
        with pytest.raises(errors.InvalidNameError, match="invalid tag"):
            filled.tag(name)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidNameError, match="invalid tag"):
            filled.untag(name)  # type: ignore[arg-type]
    with pytest.raises(errors.VersionNotFoundError):
        filled.tag("future", version=3)
    assert state(lake) == before


def test_an_empty_table_has_no_version_to_tag(table: Table) -> None:
    with pytest.raises(errors.VersionNotFoundError, match="no version to tag"):
        table.tag("first")
    assert table.tags() == {}


def test_properties_are_kept_as_text(lake: Lake, place: LakePlace) -> None:
    given = {"owner": "ops", "row_group_size": 7, "odd 'key'": "ünï\n", "empty": ""}
    table = lake.create_table("sales.kept", ORDERS, properties=given)
    expected = {"owner": "ops", "row_group_size": "7", "odd 'key'": "ünï\n", "empty": ""}
    assert table.properties == expected
    with place.connect() as again:
        assert again.table("sales.kept").properties == expected
    table.set_properties({"owner": "dev"})
    assert lake.table("sales.kept").properties == {"owner": "dev"}


def test_properties_are_the_defaults_of_writes(lake: Lake) -> None:
    written: list[WrittenFile] = []
    settings = {"row_group_size": GROUP, "max_rows_per_file": 2 * GROUP, "compression": "gzip"}
    table = lake.create_table("sales.set", ORDERS, properties=settings)
    table.append(orders(5 * GROUP), file_visitor=written.append)
    assert [file.metadata.num_rows for file in written] == [2 * GROUP, 2 * GROUP, GROUP]
    assert [file.metadata.num_row_groups for file in written] == [2, 2, 1]
    assert _codec(written[0].metadata) == "GZIP"
    written.clear()
    own = {"max_rows_per_file": 9 * GROUP, "row_group_size": 9 * GROUP, "compression": "snappy"}
    table.append(orders(5 * GROUP), file_visitor=written.append, **own)
    assert [(file.metadata.num_rows, file.metadata.num_row_groups) for file in written] == [(5 * GROUP, 1)]
    assert _codec(written[0].metadata) == "SNAPPY"
    written.clear()
    table.set_properties({"compression": "none"})
    table.append(orders(20), file_visitor=written.append)
    assert [file.metadata.num_rows for file in written] == [20]
    assert _codec(written[0].metadata) == "UNCOMPRESSED"


def _codec(metadata: pq.FileMetaData) -> str:
    return str(metadata.row_group(0).column(0).compression)


def test_properties_that_make_no_sense(lake: Lake, table: Table) -> None:
    before = state(lake)
    wrong = [
        {"compression": "rar"},
        {"row_group_size": 0},
        {"row_group_size": "many"},
        {"max_rows_per_file": -1},
        {"max_rows_per_file": 1.5},
        {"target_mb_per_file": 0},
        {"target_mb_per_file": "nan"},
        {"": "x"},
        {"k" * 256: "x"},
        {7: "x"},
        "compression=zstd",
    ]
    for properties in wrong:
        with pytest.raises(errors.InvalidOptionError):
            lake.create_table("sales.bad", ORDERS, properties=properties)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidOptionError):
            table.set_properties(properties)  # type: ignore[arg-type]
    assert state(lake) == before
