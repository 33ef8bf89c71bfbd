"""Whatever the rows: both engines do what a plain model says, to the row and to the count."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from test_merging_model import ENGINES, Rows, as_set, model, world

from parqlake.core.merging import DuplicateKeysWarning, MergeStrategy

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("v", pa.int32()),
        ("l", pa.list_(pa.int32())),
    ]
)
_ROW = st.fixed_dictionaries(
    {
        "k": st.integers(0, 5),
        "f": st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
        "s": st.sampled_from(["", "a", "b"]),
        "v": st.none() | st.integers(0, 3),
        "l": st.none() | st.lists(st.none() | st.integers(0, 3), max_size=2),
    }
)
_ROWS = st.lists(_ROW, max_size=12)
_KEYS = st.sampled_from([("k",), ("s",), ("f",), ("k", "s"), ("s", "f", "k")])
_ORDERS = st.sampled_from([(), (), ("v",), ("f", "v"), ("v", "s")])


@settings(max_examples=60)
@given(
    files=st.lists(_ROWS, max_size=3),
    source=_ROWS,
    keys=_KEYS,
    order_by=_ORDERS,
    strategy=st.sampled_from(list(MergeStrategy)),
    batch_rows=st.integers(1, 6),
    memory_bytes=st.sampled_from([1, 600, 10**8]),
)
def test_engines_do_what_the_model_says(
    *,
    files: list[Rows],
    source: Rows,
    keys: tuple[str, ...],
    order_by: tuple[str, ...],
    strategy: str,
    batch_rows: int,
    memory_bytes: int,
) -> None:
    expected, counts = model([row for rows in files for row in rows], source, keys, strategy, order_by)
    table = pa.Table.from_pylist(source, schema=SCHEMA)
    for engine in ENGINES:
        here = world(SCHEMA, [pa.Table.from_pylist(rows, schema=SCHEMA) for rows in files])
        options: dict[str, Any] = {"memory_bytes": memory_bytes, "dedup_order_by": order_by}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = here.merge(engine, table.to_reader(batch_rows), keys, strategy, **options)
        assert as_set(here.read().to_pylist()) == as_set(expected), engine
        assert outcome.counts.to_dict() == counts, engine
        assert sum(file.row_count for file in here.files) == counts["total"], engine
        warned = any(item.category is DuplicateKeysWarning for item in caught)
        distinct = len(model([], source, keys, "upsert")[0])
        assert warned == (distinct < len(source) and strategy != "deduplicate" and not order_by), engine


@settings(max_examples=40)
@given(
    target=_ROWS,
    source=_ROWS,
    keys=st.sampled_from([("k",), ("k", "s")]),
    strategy=st.sampled_from(list(MergeStrategy)),
    inside=st.booleans(),
    memory_bytes=st.sampled_from([1, 10**8]),
)
def test_rows_live_in_the_folder_of_their_partition(
    *, target: Rows, source: Rows, keys: tuple[str, ...], strategy: str, inside: bool, memory_bytes: int
) -> None:
    expected, counts = model(target, source, keys, strategy)
    for engine in ENGINES:
        here = world(SCHEMA, partition_by=("s",), partition_in_files=inside)
        for value in sorted({row["s"] for row in target}):
            own = pa.Table.from_pylist([row for row in target if row["s"] == value], schema=SCHEMA)
            here.add(own if inside else own.drop_columns(["s"]), {"s": value})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateKeysWarning)
            source_rows = pa.Table.from_pylist(source, schema=SCHEMA)
            outcome = here.merge(engine, source_rows, keys, strategy, memory_bytes=memory_bytes)
        assert as_set(here.read().to_pylist()) == as_set(expected), engine
        assert outcome.counts.to_dict() == counts, engine
        for file in here.files:
            rows = here.read_file(file.path)
            if rows.num_rows:
                assert ("s" in rows.schema.names) == inside
                assert not inside or set(rows["s"].to_pylist()) == {file.partition["s"]}
                assert file.folder == f"data/s={file.partition['s']}"
