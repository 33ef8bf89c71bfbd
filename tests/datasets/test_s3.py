"""The same swaps on S3: a server of its own on loopback."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from datasets_support import OLD, OPERATIONS, append_many, fill, left_behind, overwrite, rows

from parqlake.core.errors import ConflictError
from parqlake.datasets import recover
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap
from parqlake.storage_options import AwsStorageOptions

pytest.importorskip("s3fs", reason="needs parqlake[s3]")
moto_server = pytest.importorskip("moto.server", reason="needs moto[server], an S3 server for tests")


@pytest.fixture(scope="module")
def options() -> Iterator[AwsStorageOptions]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
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
