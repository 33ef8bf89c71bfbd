"""A process of its own that uses a catalog: `opener.py URL ACTION`, told to go by a line on its standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from catalog_support import START, Lab, id_file

from parqlake.catalogs.open import open_catalog
from parqlake.core.errors import ParqlakeError
from parqlake.core.model import Operation
from parqlake.core.ports import NewSnapshot


def main(url: str, action: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        if action == "crash":
            crash_between_statements(url)
        catalog = open_catalog(url)
        if action == "append":
            append(catalog.lake_id, Lab(catalog))
        else:
            print(catalog.lake_id, catalog.is_new, flush=True)
        catalog.close()
    except ParqlakeError as error:
        print(type(error).__name__, error, flush=True)


def append(lake_id: str, lab: Lab) -> None:
    for _ in range(10):
        lab.change([id_file()])
    print(lake_id, lab.table_id, flush=True)


def crash_between_statements(url: str) -> None:
    """Dies with a new version written and the transaction marked, one moment before COMMIT."""
    lab = Lab(open_catalog(url))
    lab.change([id_file()])
    txn = lab.begin("key")
    with lab.catalog.write() as writer:
        base = writer.lock([lab.table_id])[lab.table_id]
        new = NewSnapshot(lab.table_id, base, Operation.OVERWRITE, True, [id_file()], lab.files(1))
        writer.add_snapshot(new, txn_id=txn, committed_at=START)
        writer.finish_transaction(txn, versions={lab.table_id: 2}, at=START)
        print(lab.table_id, txn, flush=True)
        os._exit(9)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
