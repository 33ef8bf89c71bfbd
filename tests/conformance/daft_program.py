"""Reads and writes a lake with Daft, in an environment that has it; prints `done` if all was right."""

from __future__ import annotations

import sys

import daft

import parqlake
from parqlake.testing.data import ORDERS, TYPES, bag, ids, orders


def main(root: str) -> None:
    lake = parqlake.connect(root)
    table = lake.create_table("sales.orders", ORDERS, partition_by=["region"])
    for start in range(0, 100, 20):
        table.append(orders(20, first=start))
    frame = table.scan().to_daft()
    assert bag(frame.to_arrow().cast(ORDERS)) == bag(table.scan().to_arrow())
    for case in TYPES:
        typed = lake.create_table(f"types.{case.name}", case.schema)
        typed.append(case.table())
        assert bag(typed.scan().to_daft().to_arrow().cast(case.schema)) == bag(case.table()), case.name
    assert table.scan(version=0).to_daft().count_rows() == 0
    assert table.scan(version=2).to_daft().count_rows() == 40
    assert table.scan("id < 30", limit=7).to_daft().count_rows() == 7

    back = lake.create_table("sales.back", ORDERS)
    back.append(frame.where(daft.col("id") >= 50))
    assert ids(back.scan().to_arrow()) == list(range(50, 100))

    needed = {file.path for file in table.scan("id >= 80").plan.files}
    lake.context.store.delete([file.path for file in table.scan().plan.files if file.path not in needed])
    assert frame.where(daft.col("id") >= 85).select("amount").count_rows() == 15
    assert ids(frame.where((daft.col("id") >= 80) & (daft.col("region") == "eu")).to_arrow()) == [80, 84, 88, 92, 96]
    assert frame.where(daft.col("id") > 80).where(daft.col("amount").is_null()).count_rows() == 2
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(sys.argv[1])
