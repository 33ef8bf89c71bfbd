"""Reads of an object store, counted by its server: what is needed of the files, and nothing else."""

from __future__ import annotations

import errno
import logging
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

import parqlake
from parqlake.catalogs.writer import SqlWriter
from parqlake.core.errors import DataCorruptionError, InvalidPredicateError, StoreError
from parqlake.core.footers import pack_footer, unpack_footer
from parqlake.core.ports import PlannedFile
from parqlake.core.schema import assign_field_ids
from parqlake.core.statistics import describe_file
from parqlake.core.wire import decode, encode
from parqlake.engines.arrow.ranges import FetchedFile, Range
from parqlake.stores.opening import open_store
from parqlake.table.lake import Lake

ROWS = 20_000
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "amount": pa.float64()})
_REQUEST = re.compile(r"(GET|HEAD|PUT|POST|DELETE) (/\S*)")


@dataclass
class Bucket:
    """A bucket of the server, what it takes to reach it, and the requests since the last look."""

    url: str
    options: dict[str, str]
    log: list[tuple[str, str]] = field(default_factory=list)

    def asked(self) -> list[str]:
        """The kinds of requests, of a file's name those for data only; then none."""
        found = [method if path.endswith(".parquet") else f"{method} {path}" for method, path in self.log]
        self.log.clear()
        return found


class _Requests(logging.Handler):
    def __init__(self, log: list[tuple[str, str]]) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        found = _REQUEST.search(record.getMessage())
        if found:
            self._log.append((found[1], found[2]))


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "hush",
        "aws_region": "eu-west-1",
        "aws_endpoint": f"http://{host}:{port}",
        "aws_virtual_hosted_style_request": "false",
    }
    name = f"bucket-{uuid.uuid4()}"
    open_store(f"s3://{name}", options).filesystem.mkdir(name)
    made = Bucket(f"s3://{name}", options)
    logger, handler = logging.getLogger("werkzeug"), _Requests(made.log)
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    yield made
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagates
    server.stop()


@pytest.fixture
def lake(bucket: Bucket, tmp_path: Path) -> Iterator[Lake]:
    catalog = f"sqlite:///{tmp_path}/catalog.sqlite"
    with parqlake.connect(f"{bucket.url}/{uuid.uuid4()}", catalog=catalog, storage_options=bucket.options) as opened:
        yield opened


def orders(start: int) -> pa.Table:
    ids = np.arange(start, start + ROWS)
    chance = np.random.default_rng(start)
    return pa.table([ids, [f"name {i}" for i in ids], chance.random(ROWS)], schema=SCHEMA)


def footers(lake: Lake, table: Any) -> dict[int, bytes]:
    context, info = table._context, table._info
    with context.catalog.read() as reader:
        ids = [entry.file_id for entry in reader.files(info.table_id, reader.head(info.table_id).version)]
        return dict(reader.footers(info.table_id, ids))


def test_a_point_lookup_is_one_ranged_read(bucket: Bucket, lake: Lake) -> None:
    table = lake.create_table("sales.orders", SCHEMA)
    for number in range(3):
        table.append(orders(number * ROWS), row_group_size=ROWS // 5)
    bucket.asked()
    assert table.scan(f"id = {ROWS + 7}").to_arrow()["name"].to_pylist() == [f"name {ROWS + 7}"]
    assert bucket.asked() == ["GET"], "one row group of one file, by one request: no listing, no size, no footer"
    near = f"id >= {ROWS - 3} and id < {ROWS + 3}"
    assert table.scan(near, columns=["id"]).to_arrow()["id"].to_pylist() == list(range(ROWS - 3, ROWS + 3))
    assert bucket.asked() == ["GET", "GET"], "a row group of each of two files"
    assert table.scan(f"id = {4 * ROWS}").to_arrow().num_rows == 0
    assert table.scan("id >= 0").count() == 3 * ROWS
    assert bucket.asked() == [], "what the catalog knows is not asked for"
    assert table.scan().to_arrow().equals(pa.concat_tables([orders(n * ROWS) for n in range(3)]))
    assert bucket.asked() == ["GET"] * 3, "a file's row groups lie together"
    with pytest.raises(InvalidPredicateError, match="cannot be computed"):
        table.scan("9223372036854775807 + id > 1", columns=["name"]).to_arrow()


def test_footers_come_and_go_with_their_files(bucket: Bucket, lake: Lake) -> None:
    table = lake.create_table("sales.orders", SCHEMA)
    table.append(orders(0))
    table.overwrite(orders(ROWS))
    (kept,) = footers(lake, table).values()
    table.restore(version=1)
    ((number, again),) = footers(lake, table).items()
    assert unpack_footer(again).num_rows == ROWS
    assert again != kept
    bucket.asked()
    assert table.scan("id = 5").to_arrow().num_rows == 1
    assert bucket.asked() == ["GET"], "the footer was carried over to the new entry"
    table.overwrite(orders(0).slice(0, 10))
    with table._context.catalog.write() as writer:
        assert isinstance(writer, SqlWriter)
        writer.forget_files(table._info.table_id, [], [1, 2, number, 4])
        left = [file_id for (file_id,) in writer._session.rows("SELECT file_id FROM footer")]
    assert left == [4], "forgotten with the entries; that of a live file stays, whatever the caller says"


def test_files_whose_footers_are_not_known(bucket: Bucket, lake: Lake) -> None:
    table = lake.create_table("sales.orders", SCHEMA)
    table.append(orders(0))
    table.append(orders(ROWS).slice(0, 100))
    with table._context.catalog.write() as writer:
        assert isinstance(writer, SqlWriter)
        writer._session.change("DELETE FROM footer")
    bucket.asked()
    assert table.scan(f"id = {ROWS + 5}").to_arrow().num_rows == 1
    assert bucket.asked() == ["GET"], "a small file comes with its end"
    assert table.scan("id = 5").to_arrow().num_rows == 1
    assert bucket.asked() == ["GET", "GET"], "the end of the file, and then the row group"


def test_missing_and_short_files_are_named(bucket: Bucket, lake: Lake) -> None:
    table = lake.create_table("sales.orders", SCHEMA)
    table.append(orders(0))
    store = table._context.store
    (path,) = [file.path for file in table.scan().plan.files]
    data = store.read_bytes(path)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0xFF
    for content in (data[: len(data) // 2], data[:100], b"", bytes(damaged)):
        store.write_bytes(path, content)
        with pytest.raises(DataCorruptionError, match="is damaged") as caught:
            table.scan().to_arrow()
        assert path in str(caught.value)
    store.delete([path])
    with pytest.raises(DataCorruptionError, match="is missing from the store"):
        table.scan().to_arrow()
    assert "hush" not in str(caught.value) + repr(store)
    bucket.asked()


def test_what_fails_on_the_way_is_no_damage(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    class ClientError(Exception):
        """What a store's client raises that knows nothing of `OSError`."""

    table = lake.create_table("sales.orders", SCHEMA)
    table.append(orders(0).slice(0, 10))
    filesystem = table._context.store.filesystem
    for error in (
        ConnectionResetError("reset by peer"),
        TimeoutError("timed out"),
        OSError(errno.EBUSY, "Please reduce your request rate"),
        OSError("no number"),
        ClientError("could not connect"),
    ):
        for raised in (False, True):

            def fails(*_: Any, error: Exception = error, raised: bool = raised, **__: Any) -> list[Exception]:
                if raised:
                    raise error
                return [error]

            monkeypatch.setattr(filesystem, "cat_ranges", fails)
            with pytest.raises(StoreError, match=r"cannot read .* run it again") as caught:
                table.scan().to_arrow()
            assert caught.value.__cause__ is error
    monkeypatch.undo()
    assert table.scan().to_arrow().num_rows == 10


def test_a_read_across_a_hole_is_fetched() -> None:
    data = bytes(range(200))
    store = open_store(f"memory://{uuid.uuid4()}")
    store.write_bytes("p", data)
    file = PlannedFile("p", len(data), None, 1, len(data), {}, 1, 1)
    spans = ((0, 10), (10, 20), (40, 140))
    held = FetchedFile(file, store, [(Range(file, start, end), data[start:end]) for start, end in spans])
    for start, size in ((5, 15), (5, 10), (15, 10), (15, 60), (0, 200), (30, 20), (130, 20)):
        held.seek(start)
        assert bytes(held.read(size)) == data[start : start + size]


def test_a_packed_footer_is_the_footer(tmp_path: Path) -> None:
    pq.write_table(orders(0), tmp_path / "a.parquet", row_group_size=1000)
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    packed = pack_footer(metadata)
    assert packed is not None
    assert unpack_footer(packed).equals(metadata)
    for keep in (True, False):
        schema = assign_field_ids(SCHEMA)
        file = describe_file("a.parquet", 1, metadata, schema, partition={}, keep_footer=keep)
        assert decode(encode(file)).footer == (packed if keep else None), "executors send it along"
    wide = pa.table({f"c{n}": pa.array(np.random.default_rng(n).integers(0, 2**60, 40)) for n in range(1500)})
    pq.write_table(wide, tmp_path / "b.parquet", row_group_size=10)
    assert pack_footer(pq.read_metadata(tmp_path / "b.parquet")) is None, "a large one stays in its file"
