"""Optimize lays rows out so that reads skip files, rewrites no more than it has to, and changes no row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parqlake import Lake, Table, connect, errors
from parqlake.testing.backends import Backend
from parqlake.testing.data import ORDERS, TypeCase, bag, orders, rows, state
from parqlake.testing.plugin import Read

TINY = 100_000
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("s", pa.string()), ("part", pa.string())])


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Lake]:
    """One lake, for what does not depend on engine, catalog or store."""
    with connect(tmp_path / "lake") as lake:
        yield lake


def _data(count: int, seed: int, *, part: str = "x", low: int = 0, nulls: float = 0.05) -> pa.Table:
    draw = np.random.default_rng(seed)
    columns = [
        pa.array(draw.integers(low, low + 1000, count), mask=draw.random(count) < nulls),
        pa.array(draw.permutation(np.r_[math.nan, math.inf, draw.random(count - 2)])),
        pa.array([f"k{number:05d}" for number in draw.integers(0, 9999, count).tolist()]),
        pa.array([part] * count),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _shuffled(lake: Lake, name: str, files: int = 8, count: int = 500, **options: Any) -> Table:
    table = lake.create_table(f"z.{name}", SCHEMA, **options)
    for number in range(files):
        table.append(_data(count, number), engine="pyarrow")
    return table


def _watch_shared_sorts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the number of files is put down of each group that many tasks of Spark sort together."""
    from parqlake.engines.spark import rewrite_tasks

    seen: list[int] = []
    sort = rewrite_tasks.cluster_group
    monkeypatch.setattr(
        rewrite_tasks,
        "cluster_group",
        lambda spark, group, *args, **options: (
            seen.append(len(group.rows)) or sort(spark, group, *args, **options)  # type: ignore[func-returns-value]
        ),
    )
    return seen


def _files_read(table: Table, where: str) -> int:
    return table.scan(where).explain().files_read


@pytest.mark.engine_work
def test_files_are_skipped_by_each_column_and_a_repeat_does_nothing(lake: Lake, read: Read) -> None:
    table = _shuffled(lake, "curve")
    before = bag(table.scan().to_arrow())
    shuffled = table.clustering(["a", "b"])
    assert (shuffled.depth, shuffled.overlap, shuffled.files) == (8, 1, 8)
    planned = table.optimize(["a", "b"], target_rows_per_file=125, dry_run=True)
    assert (planned.dry_run, planned.after_file_count, planned.version) == (True, 32, 8)
    stats = table.optimize(["a", "b"], target_rows_per_file=125)
    assert (stats.before_file_count, stats.after_file_count, stats.zorder_columns) == (8, 32, ["a", "b"])
    assert max(table.files().column("row_count").to_pylist()) <= 125
    assert bag(read(table.scan())) == before
    assert bag(table.scan(version=8).to_arrow()) == before
    for where in ("a between 300 and 320", "b between 0.5 and 0.52", "a < 200 and b < 0.2", "a is null"):
        assert bag(table.scan(where).to_arrow()) == bag(table.scan(where, version=8).to_arrow())
    assert _files_read(table, "a between 300 and 320") <= 16
    assert _files_read(table, "b between 0.5 and 0.52") <= 16
    assert _files_read(table, "a between 300 and 320 and b between 0.5 and 0.52") <= 4
    assert table.clustering(["a", "b"]).depth < 8
    unchanged = state(lake)
    for length in (125, None):
        again = table.optimize(["a", "b"], target_rows_per_file=length)
        assert (again.version, again.compacted_file_count) == (9, 0)
    assert state(lake) == unchanged
    assert table.history()[0].operation == "optimize"


@pytest.mark.engine_work
def test_all_engines_give_the_same_statistics_and_rows(
    lake: Lake, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    shared = _watch_shared_sorts(monkeypatch) if backend.engine == "spark" else []
    for engine in ("pyarrow", backend.engine):
        table = _shuffled(lake, f"by_{len(found)}", files=4)
        stats = [
            table.optimize(["s", "a"], target_rows_per_file=300, engine=engine),
            table.optimize(["b"], target_rows_per_file=300, engine=engine, curve="zorder"),
        ]
        laid = rows(table.scan().to_arrow())
        # With so little memory Spark sorts with many tasks. Row groups are then as small as memory has it.
        tight = table.optimize(["a", "s"], target_rows_per_file=500, engine=engine, memory_limit=TINY)
        counts = (tight.before_file_count, tight.compacted_file_count, table.files().column("row_count").to_pylist())
        found.append(([each.to_dict() for each in stats], laid, counts, rows(table.scan().to_arrow())))
    assert found[0] == found[1]
    assert shared == ([4] if backend.engine == "spark" and backend.store != "memory" else [])


@pytest.mark.engine_work
def test_one_column_is_a_sort_over_all_files(lake: Lake) -> None:
    table = _shuffled(lake, "sorted", files=4)
    for column in ("a", "b", "s"):
        table.optimize([column], target_rows_per_file=400)
        measured = table.clustering([column])
        assert (measured.depth, measured.overlap, measured.files) == (1, 0, 5), str(measured)
        values = table.scan(columns=[column]).to_arrow().column(0)
        order = pa.compute.sort_indices(values)  # NaN after numbers, NULLs last
        assert values.take(order).to_pandas().equals(values.to_pandas())
        version = table.version
        assert table.optimize([column]).version == version


def test_only_what_is_new_or_lies_badly_is_rewritten(here: Lake) -> None:
    table = here.create_table("z.growing", SCHEMA, partition_by=["part"], cluster_by=["a"])
    for number in range(3):
        table.append(_data(200, number, part="old"))
    table.append(_data(200, 9, part="other"))
    first = table.optimize(target_rows_per_file=100)
    # The lone file of the other partition is one row group; it is cut all the same, as it is too long.
    assert (first.compacted_file_count, first.after_file_count) == (4, 8)
    settled = set(table.files().column("path").to_pylist())
    table.append(_data(100, 10, part="old", low=5000, nulls=0))
    assert table.optimize(target_rows_per_file=100).version == 6  # lies behind the others, as it should
    table.append(_data(100, 11, part="old", low=5000, nulls=0))
    late = table.optimize(target_rows_per_file=100)
    assert late.compacted_file_count == 2
    assert settled <= set(table.files().column("path").to_pylist())
    assert table.clustering().depth == 1
    table.append(_data(100, 12, part="other"))
    whole = table.optimize(target_rows_per_file=100)
    assert whole.compacted_file_count == 3
    assert table.clustering().depth == 1
    assert table.delete("a between 5400 and 5600").deleted > 0
    table.optimize(target_rows_per_file=100)
    assert table.clustering().depth == 1
    assert table.optimize(target_rows_per_file=100).compacted_file_count == 0


def test_a_small_append_is_laid_out_alone(here: Lake) -> None:
    table = _shuffled(here, "appended", files=4, count=2000, cluster_by=["a", "b"])
    table.optimize(target_rows_per_file=100)
    settled = set(table.files().column("path").to_pylist())
    table.append(_data(80, 50))
    alone = table.optimize(target_rows_per_file=100)
    assert alone.compacted_file_count <= 1
    table.append(_data(80, 51))
    both = table.optimize(target_rows_per_file=100)
    assert both.compacted_file_count == 2
    assert settled <= set(table.files().column("path").to_pylist())
    assert table.optimize(target_rows_per_file=100).compacted_file_count == 0


def test_cluster_by_follows_its_columns(here: Lake) -> None:
    table = _shuffled(here, "renamed", files=2, count=100, cluster_by=["a", "b"], properties={"owner": "us"})
    table.optimize(target_rows_per_file=50)
    table.rename_column("a", "key")
    assert dict(table.properties) == {"owner": "us", "cluster_by": '["key", "b"]'}
    table.widen_column("b", pa.float64())
    assert table.optimize(target_rows_per_file=50).compacted_file_count == 0  # the same columns as before
    assert [column.name for column in table.clustering().columns] == ["key", "b"]
    before = state(here)
    with pytest.raises(errors.InvalidOptionError, match='cannot drop "key": the table is clustered by it'):
        table.drop_column("key")
    assert state(here) == before
    table.add_column("late", pa.int32())
    table.set_properties({"cluster_by": '["late", "key"]'})
    table.drop_column("b")
    table.restore(version=3)
    assert dict(table.properties) == {"cluster_by": '["a"]'}
    table.set_properties({"cluster_by": "a"})  # nonsense, which is nobody's concern but that of `optimize`
    table.rename_column("a", "key")
    table.drop_column("key")
    assert dict(table.properties) == {"cluster_by": "a"}


def test_columns_in_order_already_need_nothing(here: Lake) -> None:
    table = here.create_table("z.days", ORDERS)
    for number in range(4):
        table.append(orders(20, first=number * 20))
    assert table.optimize(["id"]).version == 4
    assert table.clustering("id").depth == 1
    small = table.optimize(["id"], target_rows_per_file=1000)  # but they are small
    assert (small.version, small.after_file_count) == (5, 1)
    assert table.optimize(["id"], target_rows_per_file=1000).version == 5


@pytest.mark.engine_work
def test_files_of_older_schemas_are_laid_out_with_the_others(lake: Lake, read: Read) -> None:
    table = _shuffled(lake, "evolved", files=2, count=50)
    table.rename_column("a", "key")
    table.add_column("extra", pa.int32(), default=7)
    more = _data(50, 5).rename_columns(["key", "b", "s", "part"]).append_column("extra", pa.nulls(50, pa.int32()))
    table.append(more)
    before = bag(table.scan().to_arrow())
    assert table.optimize(["key", "extra"], target_rows_per_file=60).after_file_count == 3
    assert bag(read(table.scan())) == before
    assert bag(table.scan("extra = 7").to_arrow()) == bag(table.scan("extra = 7", version=5).to_arrow())


@pytest.mark.engine_work
def test_any_mix_of_types(lake: Lake, types: tuple[TypeCase, ...]) -> None:
    flat = [case for case in types if not pa.types.is_nested(case.type)]
    schema = pa.schema([(case.name, case.type) for case in types])
    table = lake.create_table("z.types", schema)
    for number in range(3):
        picks = [pa.array([(row + number) % len(case.array()) for row in range(7)]) for case in types]
        columns = [case.array().take(pick) for case, pick in zip(types, picks, strict=True)]
        table.append(pa.Table.from_arrays(columns, schema=schema), engine="pyarrow")
    before = bag(table.scan().to_arrow())
    for start in range(0, len(flat), 8):
        table.optimize([case.name for case in flat[start : start + 8]], target_rows_per_file=6)
        assert bag(table.scan().to_arrow()) == before
    nested = next(case.name for case in types if pa.types.is_nested(case.type))
    with pytest.raises(errors.UnsupportedTypeError, match="has no order to cluster by"):
        table.optimize([nested])


def test_bad_options_are_refused_before_anything_is_written(here: Lake) -> None:
    table = _shuffled(here, "bad", files=2, count=20, partition_by=["part"])
    before = state(here)
    bad: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({}, errors.InvalidOptionError, "has no cluster_by"),
        ({"zorder_columns": []}, errors.InvalidOptionError, "non-empty list"),
        ({"zorder_columns": ["a", "a"]}, errors.InvalidOptionError, "more than once"),
        ({"zorder_columns": ["aa"]}, errors.ColumnNotFoundError, "aa"),
        ({"zorder_columns": ["part"]}, errors.InvalidOptionError, "is a partition column"),
        ({"zorder_columns": ["a"], "curve": "peano"}, errors.InvalidOptionError, '"hilbert" or "zorder"'),
        ({"zorder_columns": ["a"], "target_mb_per_file": -1}, errors.InvalidOptionError, "must be > 0"),
    ]
    for options, error, message in bad:
        with pytest.raises(error, match=message):
            table.optimize(**options)
    with pytest.raises(errors.InvalidOptionError, match="has no cluster_by"):
        table.clustering()
    with pytest.raises(errors.ColumnNotFoundError):
        here.create_table("z.no", SCHEMA, cluster_by=["aa"])
    with pytest.raises(errors.InvalidOptionError, match="partition column"):
        here.create_table("z.no", SCHEMA, cluster_by=["part"], partition_by=["part"])
    assert state(here) == before
    table.set_properties({"cluster_by": "a, b"})
    with pytest.raises(errors.InvalidOptionError, match="no JSON list"):
        table.optimize()
