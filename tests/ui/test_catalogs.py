"""The explorer on every catalog and store: pages come from the same few questions, which all of them answer alike."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from parqlake.table.lake import Lake
from parqlake.testing.data import ORDERS, orders
from parqlake.ui import app


@pytest.mark.catalog_work
def test_pages_are_the_same_on_every_catalog(lake: Lake) -> None:
    table = lake.create_table("sales.orders", ORDERS, partition_by=["region"])
    for number in range(3):
        table.append(orders(30, first=30 * number))
    table.delete("id < 10")
    table.compact(target_mb_per_file=1)
    for version in range(1, table.version + 1):
        with lake.context.catalog.read() as reader:
            ids = reader.file_ids(table.info.table_id, version)
            entries = reader.files(table.info.table_id, version)
        assert sorted(ids) == [entry.file_id for entry in entries]
    client = TestClient(app(lake), base_url="http://127.0.0.1")
    for page in ("overview", "files", "maintenance"):  # between them they ask all there is to ask
        answer = client.get(f"/tables/sales.orders/{page}?where=id<20&version=3")
        assert answer.status_code == 200, (page, answer.text)
    found = client.get("/tables/sales.orders/explain.json?where=id<20&version=3").json()["plan"]
    plan = table.scan("id < 20", version=3).plan
    assert found["files"] == {"kept": len(plan.files), "all": table.files(version=3).num_rows}
    assert client.get("/lake.json").json()["tables"][0]["row_count"] == 80
