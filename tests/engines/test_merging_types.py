"""Keys of every type, and columns that come out as they went in, on both engines."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_merging_model import ENGINES, world

NAN = float("nan")
_TICKS = [0, -86_400, 86_400 * 20_000]
KEYS: dict[str, pa.Array] = {
    **{f"int{bits}": pa.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0], f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": pa.array([0, 2**bits - 1, 2 ** (bits - 1)], f"uint{bits}") for bits in (8, 16, 32, 64)},
    "float32": pa.array([NAN, 0.0, 1.5], pa.float32()),
    "float64": pa.array([NAN, 0.0, float("-inf")], pa.float64()),
    "decimal_small": pa.array([Decimal("1.10"), Decimal("-1.10"), Decimal("0.00")], pa.decimal128(9, 2)),
    "decimal_large": pa.array([Decimal(10**37), Decimal(-(10**37)), Decimal(2**64)], pa.decimal128(38, 0)),
    "string": pa.array(["", "é\0ß", "z" * 300]),
    "large_string": pa.array(["", "a", "漢字"], pa.large_string()),
    "dictionary": pa.array(["", "a", "b"]).dictionary_encode(),
    "binary": pa.array([b"", b"\xff\0", b"a"]),
    "large_binary": pa.array([b"", b"\xff\0", b"a"], pa.large_binary()),
    "fixed_binary": pa.array([b"abc", b"\0\0\0", b"\xff\xff\xff"], pa.binary(3)),
    "date32": pa.array([0, -1, 20_000], pa.int32()).cast(pa.date32()),
    "date64": pa.array([0, -86_400_000, 86_400_000], pa.int64()).cast(pa.date64()),
    "time32": pa.array([0, 1, 86_399], pa.int32()).cast(pa.time32("s")),
    "time64_us": pa.array([0, 1, 86_399_999_999], pa.int64()).cast(pa.time64("us")),
    "time64_ns": pa.array([0, 1, 86_399_999_999_999], pa.int64()).cast(pa.time64("ns")),
    **{f"timestamp_{unit}": pa.array(_TICKS, pa.int64()).cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "utc": pa.array(_TICKS, pa.int64()).cast(pa.timestamp("us", "UTC")),
    "berlin": pa.array(_TICKS, pa.int64()).cast(pa.timestamp("us", "Europe/Berlin")),
    "berlin_ns": pa.array([0, 1, 999], pa.int64()).cast(pa.timestamp("ns", "Europe/Berlin")),
}
ONLY_ARROW: dict[str, pa.Array] = {
    "float16": pa.array([NAN, 0.0, 1.5], pa.float16()),
    "decimal256": pa.array([Decimal(10**40), Decimal(1), Decimal(-1)], pa.decimal256(50, 0)),
}
CASES = [(engine, kind) for kind in KEYS for engine in ENGINES] + [("pyarrow", kind) for kind in ONLY_ARROW]


def _keyed(keys: pa.Array, value: str) -> pa.Table:
    return pa.table({"k": keys, "v": pa.array([value] * len(keys))})


def _plain(value: Any) -> Any:
    return "nan" if value != value else value  # noqa: PLR0124  only NaN differs from itself


@pytest.mark.parametrize("memory_bytes", [1, 10**8])
@pytest.mark.parametrize(("engine", "kind"), CASES)
def test_a_key_of_every_type(engine: str, kind: str, memory_bytes: int) -> None:
    keys = (KEYS | ONLY_ARROW)[kind]
    first, both, new = keys.slice(0, 1), keys.slice(1, 1), keys.slice(2, 1)
    here = world(_keyed(keys, "").schema, [_keyed(keys.slice(0, 2), "old")])
    stored = here.read_file(here.files[0].path).schema  # Parquet has no seconds, for instance
    source = pa.concat_tables([_keyed(both, "new"), _keyed(new, "new")])
    outcome = here.merge(engine, source, ["k"], memory_bytes=memory_bytes)
    assert outcome.counts.to_dict() == {"inserted": 1, "updated": 1, "deleted": 0, "total": 3}
    found = {_plain(row["k"]): row["v"] for row in here.read().to_pylist()}
    expected = {_plain(first[0].as_py()): "old", _plain(both[0].as_py()): "new", _plain(new[0].as_py()): "new"}
    assert found == expected
    again = here.merge(engine, _keyed(keys, "last"), ["k"], "full_merge", memory_bytes=memory_bytes)
    assert again.counts.to_dict() == {"inserted": 0, "updated": 3, "deleted": 0, "total": 3}
    for file in here.files:
        assert here.read_file(file.path).schema == stored


@pytest.mark.parametrize("engine", ENGINES)
def test_booleans_are_keys_too(engine: str) -> None:
    here = world(_keyed(pa.array([True]), "").schema, [_keyed(pa.array([True]), "old")])
    outcome = here.merge(engine, _keyed(pa.array([True, False]), "new"), ["k"])
    assert outcome.counts.to_dict() == {"inserted": 1, "updated": 1, "deleted": 0, "total": 2}


@pytest.mark.parametrize("engine", ENGINES)
def test_negative_zero_is_zero_and_nan_is_nan(engine: str) -> None:
    here = world(_keyed(pa.array([0.0]), "").schema, [_keyed(pa.array([-0.0, NAN, 1.0]), "old")])
    outcome = here.merge(engine, _keyed(pa.array([0.0, -NAN, 1.0]), "new"), ["k"])
    assert outcome.counts.to_dict() == {"inserted": 0, "updated": 3, "deleted": 0, "total": 3}


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_nan_is_found_beside_numbers(engine: str, type_: pa.DataType) -> None:
    """Parquet leaves NaN out of the statistics, so that they seem to rule it out."""
    here = world(_keyed(pa.array([0.0], type_), "").schema, [_keyed(pa.array([0.0, NAN], type_), "old")])
    outcome = here.merge(engine, _keyed(pa.array([NAN], type_), "new"), ["k"])
    assert outcome.counts.to_dict() == {"inserted": 0, "updated": 1, "deleted": 0, "total": 2}
    assert here.read()["v"].to_pylist() == ["old", "new"]


_NESTED = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        pa.field("v", pa.string()),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("full", pa.int32()),
        pa.field("must", pa.int16(), nullable=False),
        pa.field("large", pa.large_string()),
        pa.field("word", pa.dictionary(pa.int32(), pa.string())),
        pa.field("berlin", pa.timestamp("ms", "Europe/Berlin")),
        pa.field("short", pa.time32("ms")),
        pa.field("fixed", pa.binary(2)),
        pa.field("list", pa.list_(pa.int16())),
        pa.field("struct", _NESTED),
        pa.field("map", pa.map_(pa.string(), pa.float64())),
    ]
)


def _rows(ids: list[int], value: str | None) -> pa.Table:
    row = {"v": value, "full": 1, "must": 2, "large": "x", "word": value, "berlin": 1_700_000_000_000}
    row |= {"short": 5, "fixed": b"ab", "list": [1, None], "struct": {"a": None, "b": ["q", None]}}
    made = [row | {"id": number, "map": [("k", None), ("l", 1.5)] if number % 2 else None} for number in ids]
    arrays = []
    for field in SCHEMA:
        values = [item[field.name] for item in made]
        if pa.types.is_temporal(field.type):
            storage = pa.int32() if field.type.bit_width == 32 else pa.int64()
            arrays.append(pa.array(values, storage).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=SCHEMA)


@pytest.mark.parametrize("memory_bytes", [1, 10**8])
@pytest.mark.parametrize("engine", ENGINES)
def test_columns_keep_type_order_and_nullability(engine: str, memory_bytes: int) -> None:
    here = world(SCHEMA, [_rows([1, 2, 3], None), _rows([4], "old")])
    source = _rows([3, 5], "new").select(list(reversed(SCHEMA.names)))
    source = source.set_column(
        source.schema.get_field_index("v"),
        "v",
        source["v"].cast(pa.large_string()).combine_chunks().dictionary_encode(),
    )
    outcome = here.merge(engine, source, ["id"], memory_bytes=memory_bytes)
    assert len(outcome.added) == 2
    for file in outcome.added:
        assert here.read_file(file.path).schema.equals(SCHEMA)
    decoded = SCHEMA.set(5, pa.field("word", pa.string()))
    expected = pa.concat_tables([_rows([1, 2], None), _rows([3], "new"), _rows([4], "old"), _rows([5], "new")])
    assert here.read().sort_by("id").equals(expected.cast(decoded))
