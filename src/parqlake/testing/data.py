"""Data that tries hard: every type with its awkward values, and comparisons that let nothing slip.

`TYPES` holds one case for each type that tables hold. `rows` makes tables comparable: NaN equals NaN, -0.0 is not
0.0, nanoseconds are kept, and NULL is None. `stored` and `state` say what lies on a store and in a lake, so that a test
can show that nothing was left behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa

if TYPE_CHECKING:
    from parqlake.table.lake import Lake

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT64_MAX = 2**64 - 1
LONG = "long " * 20_000
"""A string of 100,000 characters."""
ALIKE = "https://example.org/a/path/that/is/longer/than/sixty-four/bytes/and/the/same/for/all/"
"""A common prefix that is longer than the keys that statistics keep."""

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("region", pa.string()),
        ("amount", pa.float64()),
        ("day", pa.date32()),
    ]
)
REGIONS = ("eu", "us", None, "asia")
GROUP = 2048
"""Rows of the smallest row group that every engine can make."""


@dataclass(frozen=True, slots=True)
class TypeCase:
    """A type and values of it, NULL among them."""

    name: str
    type: pa.DataType
    values: tuple[Any, ...]

    @property
    def schema(self) -> pa.Schema:
        """A column `id`, and the values in a column that is named like the case."""
        return pa.schema([("id", pa.int64()), (self.name, self.type)])

    def table(self) -> pa.Table:
        """The values, numbered."""
        return pa.table([pa.array(range(len(self.values)), pa.int64()), self.array()], schema=self.schema)

    def array(self) -> pa.Array:
        """The values as an array of exactly the type."""
        return _array(self.values, self.type)


def orders(count: int, *, first: int = 0) -> pa.Table:
    """Orders of the schema `ORDERS`, numbered from `first`: regions and NULLs take turns, a day has ten orders."""
    ids = range(first, first + count)
    columns = [
        list(ids),
        [REGIONS[i % len(REGIONS)] for i in ids],
        [None if i % 7 == 3 else i / 2 for i in ids],
        [date.fromordinal(date(2026, 1, 1).toordinal() + i // 10) for i in ids],
    ]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, ORDERS, strict=True)], ORDERS)


def rows(table: pa.Table) -> list[tuple[Hashable, ...]]:
    """The rows in order, as values that are equal exactly if the stored ones are."""
    columns = [[_plain(scalar) for scalar in column] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def bag(table: pa.Table) -> Counter[tuple[Hashable, ...]]:
    """The rows without their order; how often each occurs."""
    return Counter(rows(table))


def ids(table: pa.Table, column: str = "id") -> list[Any]:
    """The values of the column `id`, sorted."""
    return sorted(table.column(column).to_pylist())


def stored(root: str) -> dict[str, int]:
    """All files below a root and their sizes, by path relative to it."""
    filesystem, path = fsspec.core.url_to_fs(root)
    if not filesystem.exists(path):
        return {}
    found: Mapping[str, Mapping[str, Any]] = filesystem.find(path, detail=True)
    prefix = path.rstrip("/") + "/"
    return {name.removeprefix(prefix): int(entry["size"]) for name, entry in found.items()}


def data_files(root: str) -> set[str]:
    """The Parquet files below a root."""
    return {path for path in stored(root) if path.endswith(".parquet")}


def state(lake: Lake) -> dict[str, object]:
    """All that a lake shows of itself: tables with versions, schemas, tags and properties, and every stored file."""
    found: dict[str, object] = {"files": stored(lake.url)}
    for name in lake.tables():
        table = lake.table(name)
        found[name] = (table.version, table.schema(), table.tags(), dict(table.properties), len(table.history()))
    return found


def _plain(scalar: pa.Scalar) -> Hashable:
    if not scalar.is_valid:
        return None
    type_ = scalar.type
    t = pa.types
    if t.is_floating(type_):
        value = float(scalar.as_py())
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    if t.is_timestamp(type_) or t.is_time(type_) or t.is_date(type_):
        return (str(type_), scalar.value)
    if t.is_struct(type_):
        return tuple((type_.field(i).name, _plain(scalar[i])) for i in range(type_.num_fields))
    if t.is_map(type_):
        entries = scalar.values
        return tuple((_plain(entry[0]), _plain(entry[1])) for entry in entries)
    if t.is_nested(type_):
        return tuple(_plain(item) for item in scalar.values)
    plain: Hashable = scalar.as_py()
    return plain


def _array(values: tuple[Any, ...], type_: pa.DataType) -> pa.Array:
    ticks = pa.types.is_timestamp(type_) or pa.types.is_time(type_)
    if ticks and all(value is None or isinstance(value, int) for value in values):
        storage = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(values, storage).view(type_)
    return pa.array(values, type_)


_SIGNED = ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))
_UNSIGNED = ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()), (64, pa.uint64()))
_POINT = pa.struct([("x", pa.float64()), ("label", pa.string()), ("inner", pa.struct([("n", pa.int32())]))])
_FLOATS = (None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1e30)

TYPES: tuple[TypeCase, ...] = (
    TypeCase("bool", pa.bool_(), (True, None, False)),
    *(TypeCase(f"int{n}", type_, (-(2 ** (n - 1)), None, 0, 2 ** (n - 1) - 1)) for n, type_ in _SIGNED),
    *(TypeCase(f"uint{n}", type_, (0, None, 1, 2**n - 1)) for n, type_ in _UNSIGNED),
    TypeCase("float32", pa.float32(), _FLOATS),
    TypeCase("float64", pa.float64(), (*_FLOATS, 5e-324, 1.7976931348623157e308, 0.1)),
    TypeCase("decimal9", pa.decimal128(9, 2), (Decimal("-9999999.99"), None, Decimal("0.00"), Decimal("0.01"))),
    TypeCase("decimal18", pa.decimal128(18, 0), (Decimal(10**18 - 1), None, Decimal(1 - 10**18))),
    TypeCase("decimal38", pa.decimal128(38, 10), (Decimal("9" * 28 + ".0000000001"), None, Decimal("-" + "9" * 28))),
    TypeCase("string", pa.string(), ("", None, "a", "ünïcödé 漢字 🦆", "'; drop table x; --", "\n\t\0\x7f", LONG)),
    TypeCase("alike", pa.string(), (ALIKE + "b", None, ALIKE, ALIKE + "a" * 100, ALIKE[:64])),
    TypeCase("binary", pa.binary(), (b"", None, b"\0", b"\xff" * 100, b"\xf0\x28\x8c\x28")),
    TypeCase("date", pa.date32(), (date(1969, 12, 31), None, date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31))),
    TypeCase("time_us", pa.time64("us"), (time.min, None, time.max, time(12, 30))),
    TypeCase("time_ns", pa.time64("ns"), (0, None, 1, 86_399_999_999_999)),
    TypeCase("timestamp_us", pa.timestamp("us"), (-1, None, 1_774_751_400_000_000, 253_402_214_400_000_000)),
    TypeCase("timestamp_ns", pa.timestamp("ns"), (-1, None, 0, 1, 1_767_225_600_123_456_789)),
    TypeCase(
        "timestamp_us_utc",
        pa.timestamp("us", "UTC"),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), None, datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ),
    TypeCase("timestamp_us_berlin", pa.timestamp("us", "Europe/Berlin"), (-1, None, 1_774_747_800_000_000)),
    TypeCase("timestamp_ns_utc", pa.timestamp("ns", "UTC"), (-1, None, 1_767_225_600_123_456_789)),
    TypeCase(
        "struct",
        _POINT,
        (
            {"x": math.nan, "label": "a", "inner": {"n": 1}},
            None,
            {"x": None, "label": None, "inner": None},
            {"x": -0.0, "label": "", "inner": {"n": None}},
        ),
    ),
    TypeCase("list", pa.list_(pa.field("element", pa.int64())), ([1, 2, None], None, [], [INT64_MIN])),
    TypeCase(
        "list_of_structs",
        pa.list_(
            pa.field("element", pa.struct([("a", pa.string()), ("b", pa.list_(pa.field("element", pa.bool_())))]))
        ),
        ([{"a": "x", "b": [True, None]}, None], None, [], [{"a": None, "b": None}]),
    ),
    TypeCase(
        "map",
        pa.map_(pa.string(), pa.float64()),
        ([("a", 1.0), ("ä", None)], None, [], [("", math.nan)]),
    ),
)
