"""What the tests of merges share: a target in a store, and a slow, obvious model, which is tested here itself."""

from __future__ import annotations

import importlib
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.merging import MergeOutcome, MergeTarget, TargetFile, merge_rule
from parqlake.core.merging.conforming import conform, partition_constants, working_schema
from parqlake.core.names import partition_segment
from parqlake.core.partitioning import partition_text
from parqlake.core.ports import WriteSpec
from parqlake.stores import open_store
from parqlake.stores.fsspec_store import FsspecStore

ENGINES = ("pyarrow", "duckdb")
_ROOMS = {"pyarrow": "arrow", "duckdb": "duck"}
Rows = list[dict[str, Any]]


@dataclass
class World:
    """A directory of Parquet files, without a catalog."""

    store: FsspecStore
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    partition_in_files: bool = False
    files: list[TargetFile] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def add(self, table: pa.Table, partition: Mapping[str, Any] | None = None, **options: Any) -> TargetFile:
        """Writes a file; partition values are given as Python values and stand in the folder's name."""
        texts = {
            name: partition_text(pa.scalar(value, self.schema.field(name).type))
            for name, value in (partition or {}).items()
        }
        folder = "/".join(["data", *(partition_segment(name, text) for name, text in texts.items())])
        path = f"{folder}/part-{uuid.uuid4()}.parquet"
        self.store.make_folders([folder])
        pq.write_table(table, self.store.full_path(path), filesystem=self.store.arrow_filesystem(), **options)
        self.files.append(TargetFile(path, table.num_rows, texts))
        return self.files[-1]

    def target(self) -> MergeTarget:
        spec = WriteSpec("data", self.schema, partition_by=self.partition_by, compression="snappy")
        return MergeTarget(
            store=self.store,
            files=tuple(self.files),
            spec=replace(spec, **self.options),
            new_path=lambda folder: f"{folder}/new-{uuid.uuid4()}.parquet",
            partition_in_files=self.partition_in_files,
        )

    def merge(
        self, engine: str, source: Any, keys: Sequence[str], strategy: str = "upsert", **options: Any
    ) -> MergeOutcome:
        """Merges and publishes: takes the removed files out of the list and the new ones in."""
        rule = merge_rule(
            keys,
            strategy,
            dedup_order_by=options.pop("dedup_order_by", None),
            update_columns=options.pop("update_columns", None),
        )
        outcome: MergeOutcome = merge_function(engine)(source, self.target(), rule, **options)
        gone = {file.path for file in outcome.removed}
        self.files = [file for file in self.files if file.path not in gone]
        self.files += [TargetFile(file.path, file.row_count, file.partition) for file in outcome.added]
        return outcome

    def stored(self) -> set[str]:
        return {file.path for file in self.store.list_files("data")}

    def read(self) -> pa.Table:
        """All rows, partition columns from the folders where the files lack them."""
        schema = working_schema(self.schema)
        batches = []
        for file in self.files:
            table = self.read_file(file.path)
            constants = partition_constants(file.partition, schema)
            batches += [conform(batch, schema, constants) for batch in table.to_batches()]
        return pa.Table.from_batches(batches, schema=schema)

    def read_file(self, path: str) -> pa.Table:
        with self.store.arrow_filesystem().open_input_file(self.store.full_path(path)) as file:
            return pq.read_table(file)


def merge_function(engine: str) -> Any:
    """The `merge` of an engine."""
    return importlib.import_module(f"parqlake.engines.{_ROOMS[engine]}.merging").merge


def world(schema: pa.Schema, tables: Sequence[pa.Table] = (), *, url: str | None = None, **options: Any) -> World:
    """A world in memory, or at the address, with a file for each table."""
    store = open_store(url or f"memory://merge-{uuid.uuid4()}")
    store.prepare_root()
    made = World(store, schema, **options)
    for table in tables:
        made.add(table)
    return made


def comparable(value: Any) -> Any:
    """A value that can be compared and sorted: NaN equals itself, -0.0 is 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def as_set(rows: Rows) -> list[str]:
    """Rows without an order."""
    return sorted(repr([(name, comparable(value)) for name, value in sorted(row.items())]) for row in rows)


def model(
    target: Rows, source: Rows, keys: Sequence[str], strategy: str, order_by: Sequence[str] = ()
) -> tuple[Rows, dict[str, int]]:
    """What a merge must do, row by row."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(comparable(row[name]) for name in keys)

    def rank(row: dict[str, Any]) -> list[tuple[Any, ...]]:
        values = [row[name] for name in order_by]
        return [
            (0,) if value is None else (2,) if comparable(value) == "nan" else (1, comparable(value))
            for value in values
        ]

    chosen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in source:
        if key(row) not in chosen or rank(row) >= rank(chosen[key(row)]):
            chosen[key(row)] = row
    result, updated, deleted = [], 0, 0
    for row in target:
        match = chosen.get(key(row))
        if match is not None and strategy != "insert":
            updated += 1
            result.append(match)
        elif match is None and strategy == "full_merge":
            deleted += 1
        else:
            result.append(row)
    there = {key(row) for row in target}
    new = [row for found, row in chosen.items() if found not in there] if strategy != "update" else []
    counts = {"inserted": len(new), "updated": updated, "deleted": deleted, "total": len(result) + len(new)}
    return result + new, counts


TARGET = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 2, "v": "c"}]
SOURCE = [{"id": 2, "v": "x"}, {"id": 3, "v": "y"}, {"id": 2, "v": "w"}]


def test_the_model_updates_every_match_with_the_last_row() -> None:
    rows, counts = model(TARGET, SOURCE, ["id"], "upsert")
    assert [(row["id"], row["v"]) for row in rows] == [(1, "a"), (2, "w"), (2, "w"), (3, "y")]
    assert counts == {"inserted": 1, "updated": 2, "deleted": 0, "total": 4}


def test_the_model_takes_the_highest_row() -> None:
    rows, counts = model(TARGET, SOURCE, ["id"], "full_merge", ["v"])
    assert [(row["id"], row["v"]) for row in rows] == [(2, "x"), (2, "x"), (3, "y")]
    assert counts == {"inserted": 1, "updated": 2, "deleted": 1, "total": 3}
