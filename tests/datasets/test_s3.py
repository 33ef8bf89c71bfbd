"""The same swaps on S3: a server of its own on loopback."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from datasets_support import OLD, OPERATIONS, append_many, fill, left_behind, overwrite, rows
from moto.server import ThreadedMotoServer

import parqlake
from parqlake.core.errors import ConflictError, InvalidOptionError
from parqlake.datasets import recover
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap
from parqlake.storage_options import AwsStorageOptions, LocalStorageOptions


@pytest.fixture(scope="module")
def options() -> Iterator[AwsStorageOptions]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield AwsStorageOptions(
        key="test", secret="hush", region="eu-west-1", endpoint_url=f"http://{host}:{port}", path_style=True
    )
    server.stop()


@pytest.fixture
def place(options: AwsStorageOptions) -> Place:
    bucket = f"bucket-{uuid.uuid4()}"
    options.to_filesystem().mkdir(bucket)
    return Place(f"s3://{bucket}/data", storage_options=options)


def test_a_lake_takes_storage_options(place: Place, options: AwsStorageOptions, tmp_path: Path) -> None:
    catalog = f"sqlite:///{tmp_path}/catalog.sqlite"
    with parqlake.connect(place.url, catalog=catalog, storage_options=options) as lake:
        lake.create_table("main.numbers", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1, 2]}))
        assert lake.table("main.numbers").scan().to_arrow().num_rows == 2
    with parqlake.connect(tmp_path / "local", storage_options=LocalStorageOptions()) as lake:
        assert lake.tables() == []
    for url, wrong in ((place.url, LocalStorageOptions()), (tmp_path / "other", options)):
        with pytest.raises(InvalidOptionError, match="give the options of its store") as caught:
            parqlake.connect(url, catalog=catalog, storage_options=wrong)
        assert "hush" not in str(caught.value)
    with pytest.raises(InvalidOptionError, match="storage_options are a int"):
        parqlake.connect(tmp_path / "other", storage_options=7)  # type: ignore[arg-type]
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_on_s3(place: Place, operation) -> None:  # type: ignore[no-untyped-def]
    fill(place, OLD)
    assert operation(place) == rows(place)
    assert left_behind(place) == []


def test_exclusive_names_and_leases_on_s3(place: Place, options: AwsStorageOptions) -> None:
    fill(place, OLD)
    with Swap(place) as swap:
        with pytest.raises(ConflictError, match="being rewritten by"), Swap(place):
            raise AssertionError
        assert swap.stage_new(Naming("data_{}.parquet")).final == "data_001.parquet"
        with Swap(place, append=True) as other:
            assert other.stage_new(Naming("data_{}.parquet")).final == "data_002.parquet"
    append_many(place)
    overwrite(place)
    assert not recover(place.url, storage_options=options)
