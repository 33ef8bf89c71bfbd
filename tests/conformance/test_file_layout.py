"""The files of a table: plain Parquet, named in order of time, and self-describing."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from parqlake import Lake, Table, WrittenFile, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import GROUP, bag, data_files, orders
from parqlake.testing.plugin import Feed, Read

pytestmark = pytest.mark.engine_work

NAME = re.compile(r"part-([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})\.parquet")
NESTED = pa.schema(
    [
        ("a", pa.int64()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.field("element", pa.string())))])),
        ("m", pa.map_(pa.string(), pa.float64())),
        ("z", pa.string()),
    ]
)


def _footer(place: LakePlace, path: str) -> pq.FileMetaData:
    filesystem, root = fsspec.core.url_to_fs(place.root)
    with filesystem.open(f"{root}/{path}", "rb") as file:
        return pq.ParquetFile(file).metadata


def _field_ids(schema: Any) -> dict[str, int]:
    found: dict[str, int] = {}

    def visit(field: pa.Field, path: str) -> None:
        found[path] = int((field.metadata or {}).get(b"PARQUET:field_id", b"-1"))
        type_ = field.type
        is_map = pa.types.is_map(type_)
        for child in (type_.key_field, type_.item_field) if is_map else map(type_.field, range(type_.num_fields)):
            visit(child, f"{path}.{child.name}")

    for field in schema:
        visit(field, field.name)
    return found


def test_names_are_part_and_a_uuid_that_grows_with_time(table: Table, place: LakePlace, feed: Feed) -> None:
    for first in range(5):
        table.append(feed(orders(3, first=first)))
    names = [path.rpartition("/")[2] for path in table.files().column("path").to_pylist()]
    matches = [NAME.fullmatch(name) for name in names]
    assert all(matches), names
    moments = [UUID(match[1]).int >> 80 for match in matches if match]
    assert moments == sorted(moments)
    assert all(path.startswith(f"{table.location}/part-") for path in data_files(place.root))


def test_a_table_has_a_folder_of_its_own(lake: Lake, table: Table, place: LakePlace, feed: Feed) -> None:
    other = lake.create_table("sales.other", orders(0))
    table.append(feed(orders(3)))
    other.append(feed(orders(3)))
    assert table.location != other.location
    assert table.location.startswith("sales/orders-")
    assert {path.rpartition("/")[0] for path in data_files(place.root)} == {table.location, other.location}


def test_every_field_has_an_id_in_the_file(lake: Lake, place: LakePlace, feed: Feed) -> None:
    table = lake.create_table("t.nested", NESTED)
    value = {"a": 1, "s": {"x": 2, "y": ["b"]}, "m": [("k", 0.5)], "z": "end"}
    table.append(feed(pa.Table.from_pylist([value], schema=NESTED)))
    (path,) = data_files(place.root)
    found = _field_ids(_footer(place, path).schema.to_arrow_schema())
    assert -1 not in found.values(), found
    assert len(set(found.values())) == len(found)
    top = {name: number for name, number in found.items() if "." not in name}
    assert list(top.values()) == sorted(top.values())
    table.append(pa.Table.from_pylist([value], schema=NESTED), engine="pyarrow")
    (second,) = data_files(place.root) - {path}
    again = _field_ids(_footer(place, second).schema.to_arrow_schema())
    assert {name: number for name, number in again.items() if "." not in name} == top
    assert sorted(again.values()) == sorted(found.values())


def test_table_and_transaction_stand_in_the_footer(lake: Lake, table: Table, place: LakePlace, feed: Feed) -> None:
    first = table.append(feed(orders(3)))
    second = table.append(feed(orders(3)))
    other = lake.create_table("sales.other", orders(0))
    other.append(feed(orders(1)))
    footers = {path: _footer(place, path).metadata for path in data_files(place.root)}
    ids = {path: footer[b"parqlake.table_id"] for path, footer in footers.items()}
    assert len({ids[f"{table.location}/{file.path}"] for file in (*first.files, *second.files)}) == 1
    assert len(set(ids.values())) == 2
    for result in (first, second):
        footer = footers[f"{table.location}/{result.files[0].path}"]
        assert footer[b"parqlake.transaction_id"] == result.transaction_id.encode()


@pytest.mark.parametrize(
    ("codec", "found"),
    [
        ("zstd", "ZSTD"),
        ("snappy", "SNAPPY"),
        ("gzip", "GZIP"),
        ("lz4", "LZ4"),
        ("brotli", "BROTLI"),
        ("none", "UNCOMPRESSED"),
        ("ZSTD", "ZSTD"),
        (None, "ZSTD"),
    ],
)
def test_compression(table: Table, place: LakePlace, codec: str | None, found: str, feed: Feed) -> None:
    table.append(feed(orders(50)), compression=codec)
    (path,) = data_files(place.root)
    metadata = _footer(place, path)
    codecs = {metadata.row_group(0).column(i).compression for i in range(metadata.num_columns)}
    assert codecs == {found}
    assert bag(table.scan().to_arrow()) == bag(orders(50))


def test_no_file_has_more_rows_than_allowed(table: Table, feed: Feed) -> None:
    result = table.append(feed(orders(103).to_batches(max_chunksize=10)), max_rows_per_file=25)
    assert [file.row_count for file in result.files] == [25, 25, 25, 25, 3]
    assert table.scan().to_arrow().equals(orders(103))


def test_no_partition_file_has_more_rows_than_allowed(by_region: Table, feed: Feed, read: Read) -> None:
    result = by_region.append(feed(orders(100)), max_rows_per_file=10)
    assert sorted(file.row_count for file in result.files) == [5] * 4 + [10] * 8
    assert bag(read(by_region.scan())) == bag(orders(100))


@pytest.mark.parametrize("batch", [10 * GROUP, 700], ids=["one batch", "batches of 700"])
def test_no_row_group_has_more_rows_than_allowed(table: Table, batch: int, feed: Feed) -> None:
    count = 3 * GROUP + 100
    result = table.append(feed(orders(count).to_batches(max_chunksize=batch)), row_group_size=GROUP)
    assert len(result.files) == 1
    groups = table.row_groups()
    rows = groups.filter(pa.compute.field("column") == "id").column("row_count").to_pylist()
    assert rows == [GROUP, GROUP, GROUP, 100]


def test_files_roll_at_about_the_target_size(table: Table, feed: Feed) -> None:
    batches = orders(60_000).to_batches(max_chunksize=2000)
    result = table.append(feed(batches), target_mb_per_file=0.1, row_group_size=2000, compression="none")
    sizes = [file.size_bytes for file in result.files]
    assert len(sizes) > 3
    assert all(size >= 0.1 * 2**20 for size in sizes[:-1])
    assert max(sizes) < 3 * 0.1 * 2**20
    assert table.scan().count() == 60_000


def test_a_visitor_sees_each_finished_file(by_region: Table, place: LakePlace, feed: Feed) -> None:
    seen: list[WrittenFile] = []
    result = by_region.append(feed(orders(6 * GROUP)), file_visitor=seen.append, row_group_size=GROUP)
    assert {file.path: file.size for file in seen} == {file.path: file.size_bytes for file in result.files}
    for file in seen:
        assert file.metadata.num_rows == 6 * GROUP // 4
        assert file.metadata.num_row_groups == 2
        assert file.metadata.row_group(0).column(0).statistics.min is not None
        assert f"{by_region.location}/{file.path}" in data_files(place.root)


def test_a_visitor_that_raises_stops_the_write(table: Table, place: LakePlace, feed: Feed) -> None:
    def refuse(file: WrittenFile) -> None:
        raise RuntimeError(f"not {file.path}")

    with pytest.raises(Exception, match="not part-"):
        table.append(feed(orders(40)), max_rows_per_file=10, file_visitor=refuse)
    assert table.version == 0
    assert data_files(place.root) == set()


def test_the_result_describes_what_was_written(by_region: Table, feed: Feed) -> None:
    result = by_region.append(feed(orders(40)))
    assert (result.version, result.row_count, result.removed_rows, result.replayed) == (1, 40, 0, False)
    assert {file.path for file in result.files} == set(by_region.files().column("path").to_pylist())
    assert {file.partition["region"] for file in result.files} == {"eu", "us", "asia", None}
    assert all(file.added == 1 for file in result.files)
    assert UUID(result.transaction_id).version == 7


def test_other_tools_read_the_files_as_they_are(by_region: Table, place: LakePlace, feed: Feed) -> None:
    by_region.append(feed(orders(40)))
    filesystem, root = fsspec.core.url_to_fs(place.root)
    found = ds.dataset(f"{root}/{by_region.location}", filesystem=filesystem, format="parquet").to_table()
    assert bag(found.select(orders(0).column_names)) == bag(orders(40))


def test_options_that_make_no_sense(table: Table, place: LakePlace, subtests: pytest.Subtests, feed: Feed) -> None:
    wrong: list[dict[str, Any]] = [
        {"compression": "rar"},
        {"compression": 7},
        {"max_rows_per_file": 0},
        {"max_rows_per_file": -5},
        {"max_rows_per_file": 2.5},
        {"max_rows_per_file": True},
        {"row_group_size": 0},
        {"row_group_size": "many"},
        {"target_mb_per_file": 0},
        {"target_mb_per_file": float("nan")},
        {"target_mb_per_file": float("inf")},
        {"target_mb": 5},
        {"engine": "spork"},
        {"engine": 7},
        {"idempotency_key": ""},
        {"idempotency_key": 7},
        {"idempotency_key": "k" * 1001},
    ]
    for options in wrong:
        with subtests.test(options=str(options)):
            with pytest.raises(errors.InvalidOptionError, match=next(iter(options))):
                table.append(feed(orders(3)), **options)
            with pytest.raises(errors.InvalidOptionError, match=next(iter(options))):
                table.overwrite(feed(orders(3)), where="id >= 0", **options)
    assert table.version == 0
    assert data_files(place.root) == set()
