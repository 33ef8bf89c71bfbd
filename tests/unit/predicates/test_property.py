"""For random tables and predicates, pyarrow and DuckDB select the rows that a plain evaluator in Python selects."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parqlake.core.predicates import bind
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.to_sql import to_sql
from parqlake.core.predicates.tree import (
    And,
    Column,
    Compare,
    CompareOp,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)
from parqlake.core.predicates.untrue import untrue

DAY = 86_400 * 10**9
CONNECTION = duckdb.connect()


@dataclass(frozen=True)
class Kind:
    """A type, with values at its edges as the evaluator sees them, and constants that lie on and between them."""

    family: str
    type: pa.DataType
    values: list[Any]
    constants: list[Any]

    def array(self, values: list[Any]) -> pa.Array:
        if self.family in ("moment", "time"):
            tick = tick_of(self.type)
            ticks = pa.array([None if v is None else v // tick for v in values], pa.int64())
            return ticks.cast(pa.int32()).cast(self.type) if pa.types.is_date(self.type) else ticks.cast(self.type)
        if self.family == "decimal":
            scale = self.type.scale
            values = [None if v is None else Decimal(int(v * 10**scale)).scaleb(-scale, WIDE) for v in values]
        return pa.array(values, self.type)


def tick_of(type_: pa.DataType) -> int:
    return DAY if pa.types.is_date(type_) else {"us": 1000, "ns": 1}[type_.unit]


WIDE = Context(prec=50)
TENTH = float(np.float32(0.1))
NUMBERS = [0, 1, -1, 0.5, -1.5, 0.1, Decimal("0.1"), Decimal("0.105"), Decimal("0.35"), np.float32(0.1), -0.0, TENTH]
NUMBERS += [
    127,
    128,
    -129,
    255,
    256,
    999.99,
    1000,
    2**24 + 1,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    np.uint64(2**64 - 1),
    2**64,
]
NUMBERS += [math.nan, math.inf, -math.inf, 1e39, -1e300, Decimal("1e400"), Decimal("-1e39"), Decimal("1e-400")]
TEXTS = ["", "a", "ab", "aB", "b%", "a_b", "é", "😀", "\\", "a\nb", "z'"]
BYTES = [b"", b"\0", b"a", b"a\0", b"\xff", b"'"]


def integers(type_: pa.DataType) -> Kind:
    bits = type_.bit_width
    low, high = (0, 2**bits - 1) if pa.types.is_unsigned_integer(type_) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = {low, -1, 0, 1, 2, 2**24 + 1, 2**53 + 1, high - 1, high}
    return Kind("integer", type_, sorted(n for n in edges if low <= n <= high), NUMBERS)


def floats(type_: pa.DataType) -> Kind:
    values = [0.0, -0.0, math.nan, math.inf, -math.inf, -1.5, TENTH, 2.0**24, 2.0**24 + 2]
    values.append(float(np.nextafter(np.float32(0.1), np.float32(0))))
    return Kind(
        "float", type_, values if type_ == pa.float32() else [*values, 0.1, 0.35, 1e300, 2.0**53, 2.0**53 + 2], NUMBERS
    )


def decimals(precision: int, scale: int) -> Kind:
    limit = 10**precision - 1
    values = [-limit, 0, 1, 10**scale // 10, 35 * 10**scale // 100, -3 * 10**scale // 2, 10**scale, limit]
    return Kind("decimal", pa.decimal128(precision, scale), [Fraction(n, 10**scale) for n in values], NUMBERS)


def moments(type_: pa.DataType) -> Kind:
    tick = tick_of(type_)
    values = sorted({nanos // tick * tick for nanos in (0, 1, -1, 1000, -1000, DAY, DAY + 1, -DAY, 20_000 * DAY)})
    values += [-700_000 * DAY, 2_000_000 * DAY] if pa.types.is_date(type_) else []
    zone = None if pa.types.is_date(type_) else type_.tz
    constants: list[Any] = [dt.date(year, 1, 1) for year in (1, 1600, 1970, 2300, 9999)]
    for nanos in (0, 1, -1, 999, 1000, DAY, DAY + 1, DAY // 2, 20_000 * DAY - 1000):
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=nanos // 1000)
        text = f"{moment:%Y-%m-%d %H:%M:%S}.{nanos % 10**9:09}"
        constants += [np.datetime64(nanos, "ns"), text, moment if zone else moment.replace(tzinfo=None)]
        constants += [text.replace(" ", "T") + "Z", pa.scalar(nanos, pa.timestamp("ns", "UTC"))] if zone else []
    return Kind("moment", type_, values, constants)


def times(unit: str) -> Kind:
    nanos = [0, 1, 999, 1000, DAY // 2, DAY // 2 + 1, DAY - 1000, DAY - 1]
    values = sorted({n // tick_of(pa.time64(unit)) * tick_of(pa.time64(unit)) for n in nanos})
    return Kind("time", pa.time64(unit), values, [pa.scalar(n, pa.time64("ns")) for n in nanos])


KINDS = {
    **{str(t): integers(t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): integers(t) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "float": floats(pa.float32()),
    "double": floats(pa.float64()),
    "decimal(5, 2)": decimals(5, 2),
    "decimal(38, 10)": decimals(38, 10),
    "string": Kind("text", pa.string(), TEXTS, TEXTS),
    "binary": Kind("bytes", pa.binary(), BYTES, BYTES),
    "bool": Kind("bool", pa.bool_(), [True, False], [True, False]),
    "date": moments(pa.date32()),
    "time us": times("us"),
    "time ns": times("ns"),
    "naive us": moments(pa.timestamp("us")),
    "naive ns": moments(pa.timestamp("ns")),
    "zoned us": moments(pa.timestamp("us", "Europe/Berlin")),
    "zoned ns": moments(pa.timestamp("ns", "UTC")),
}


# ------------------------------------------------------------------------------------------------ evaluator


def exact(value: Any) -> Any:
    return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)


def meaning(value: Any, kind: Kind) -> Any:
    """What a constant means beside a column of this kind, in the evaluator's terms."""
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if kind.family == "float" and isinstance(value, Decimal) and math.isfinite(float(value)):
        with np.errstate(over="ignore"):
            nearest = float(np.float32(float(value))) if kind.type == pa.float32() else float(value)
        return nearest if math.isfinite(nearest) else Fraction(value)
    if kind.family == "decimal" and isinstance(value, float) and math.isfinite(value):
        return Fraction(Decimal(repr(value)))
    if kind.family in ("integer", "float", "decimal"):
        return exact(value)
    if kind.family == "time":
        return value.value
    if kind.family != "moment":
        return value
    if isinstance(value, pa.Scalar):
        return value.value
    if isinstance(value, str):
        text, fraction = value.replace("T", " ").removesuffix("Z").removesuffix("+00:00").split(".")
        seconds = dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=dt.UTC)
        return (seconds - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(seconds=1) * 10**9 + int(fraction)
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[ns]").astype(int))
    if not isinstance(value, dt.datetime):
        return (value - dt.date(1970, 1, 1)).days * DAY
    return (
        (value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) * 1000
    )


def order(a: Any, b: Any) -> int:
    """-1, 0 or 1; NaN equals itself and is greater than every number."""
    nan_a, nan_b = (isinstance(v, float) and math.isnan(v) for v in (a, b))
    if nan_a or nan_b:
        return int(nan_a) - int(nan_b)
    return (a > b) - (a < b)


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def evaluate(node: Predicate, row: dict[str, Any], kinds: dict[str, Kind]) -> bool | None:
    match node:
        case Constant(value=value):
            return value
        case Not(item=item):
            found = evaluate(item, row, kinds)
            return None if found is None else not found
        case And(items=items):
            results = [evaluate(item, row, kinds) for item in items]
            return False if False in results else None if None in results else True
        case Or(items=items):
            results = [evaluate(item, row, kinds) for item in items]
            return True if True in results else None if None in results else False
        case IsNull(expr=Column(path=(name, *_)), negated=negated):
            return (row[name] is None) != negated
        case IsNaN(expr=Column(path=(name, *_)), negated=negated):
            value = row[name]
            return None if value is None else (isinstance(value, float) and math.isnan(value)) != negated
        case Like(expr=Column(path=(name, *_)), pattern=pattern, negated=negated):
            return None if row[name] is None else like(row[name], pattern) != negated
        case In(expr=expr, values=values, negated=negated):
            equal = [evaluate(Compare(CompareOp.EQ, expr, value), row, kinds) for value in values]
            found = True if True in equal else None if None in equal else False
            return None if found is None else found != negated
        case Compare(op=op, left=Literal() as left, right=right):
            return evaluate(Compare(op.mirrored, right, left), row, kinds)
        case Compare(op=op, left=Column(path=(name, *_)), right=right):
            a, kind = row[name], kinds[name]
            b = right.value if isinstance(right, Literal) else row[right.path[0]]  # type: ignore[union-attr]
            if a is None or b is None:
                return None
            if isinstance(right, Literal):
                b = meaning(b, kind)
            elif "float" in (kind.family, kinds[right.path[0]].family):  # type: ignore[union-attr]
                a, b = float(a), float(b)
            sign = order(a, b)
            return {"=": sign == 0, "!=": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[op]
    raise AssertionError(node)


# ------------------------------------------------------------------------------------------------ the properties


def check(
    columns: dict[str, list[Any]], kinds: dict[str, Kind], predicates: list[Predicate], **arrays: pa.Array
) -> None:
    """All predicates, and what each does not select, in one query on each engine."""
    count = len(next(iter(columns.values())))
    table = pa.table({"row": range(count)} | {name: kinds[name].array(columns[name]) for name in columns} | arrays)
    rows = [{name: values[i] for name, values in columns.items()} for i in range(count)]
    bound = [bind(predicate, table.schema) for predicate in predicates]
    assert bound == [bind(predicate, table.schema) for predicate in bound]
    conditions = [condition for predicate in bound for condition in (predicate, untrue(predicate))]
    projection = {str(i): to_arrow(condition) for i, condition in enumerate(conditions)}
    by_arrow = pa.dataset.dataset(table).to_table(columns=projection)
    CONNECTION.register("arrow_table", table)
    CONNECTION.execute("create or replace temp table t as select * from arrow_table")
    query = ", ".join(f'({to_sql(condition)}) as "{i}"' for i, condition in enumerate(conditions))
    by_duckdb = CONNECTION.sql(f"select {query} from t order by row").to_arrow_table()
    for i, predicate in enumerate(predicates):
        wanted = [evaluate(predicate, row, kinds) is True for row in rows]
        for engine, result in (("pyarrow", by_arrow), ("duckdb", by_duckdb)):
            for column, expected in ((2 * i, wanted), (2 * i + 1, [not truth for truth in wanted])):
                found = [truth is True for truth in result.column(str(column)).to_pylist()]
                assert found == expected, (engine, predicate, to_sql(conditions[column]), columns)


@pytest.mark.parametrize("name", KINDS)
def test_every_constant_beside_every_value(name: str) -> None:
    kind, column = KINDS[name], Column(("x",))
    predicates: list[Predicate] = [IsNull(column), IsNull(column, negated=True), IsNaN(column), Not(IsNaN(column))]
    for i, value in enumerate(kind.constants):
        constant, following = Literal(value), Literal(kind.constants[(i + 7) % len(kind.constants)])
        predicates += [Compare(op, column, constant) for op in CompareOp]
        predicates += [Compare(CompareOp.LT, constant, column), Not(Compare(CompareOp.GT, column, constant))]
        predicates += [In(column, (constant, following)), In(column, (constant, following), negated=True)]
        predicates += [In(column, (constant, Literal(None))), Not(In(column, (constant, Literal(None))))]
        predicates.append(Or((Compare(CompareOp.EQ, column, constant), Compare(CompareOp.EQ, column, following))))
    check({"x": [*kind.values, None]}, {"x": kind}, predicates)


def comparable(a: Kind, b: Kind) -> bool:
    numbers = ("integer", "float", "decimal")
    if a.family in numbers and b.family in numbers:
        return True
    zones = [getattr(kind.type, "tz", None) is None for kind in (a, b)]
    return a.family == b.family and a.family != "bool" and zones[0] == zones[1]


@pytest.mark.parametrize("name", KINDS)
def test_every_value_beside_every_other(name: str) -> None:
    for other in KINDS.values():
        if comparable(KINDS[name], other):
            kinds = {"x": KINDS[name], "y": other}
            pools = [[v for v in kind.values if kind.family != "moment" or abs(v) < 2**63] for kind in kinds.values()]
            pairs = list(itertools.product([*pools[0], None], [*pools[1], None]))
            columns = {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}
            check(columns, kinds, [Compare(op, Column(("x",)), Column(("y",))) for op in CompareOp])


@st.composite
def leaves(draw: st.DrawFn, kinds: dict[str, Kind]) -> Predicate:
    name = draw(st.sampled_from(sorted(kinds)))
    kind = kinds[name]
    column = Column((name, "x", "y") if name == "nested" else (name,))
    constant = st.sampled_from([None, *kind.constants]).map(Literal)
    form = draw(st.sampled_from(["compare", "compare", "in", "null", "nan", "columns", "like"]))
    negated = draw(st.booleans())
    if form == "null":
        return IsNull(column, negated)
    if form == "nan":
        return IsNaN(column, negated)
    if form == "like" and kind.family == "text":
        return Like(column, draw(st.text("%_abBé\\", max_size=4)), negated)
    if form == "in":
        return In(column, tuple(draw(st.lists(constant, max_size=4))), negated)
    op = draw(st.sampled_from(list(CompareOp)))
    apart = ("nested", "date")  # a date beyond the range of nanoseconds beside such a timestamp is an error
    others = [other for other in kinds if comparable(kind, kinds[other]) and not {name, other} & set(apart)]
    if form == "columns" and others:
        return Compare(op, column, Column((draw(st.sampled_from(others)),)))
    return Compare(op, column, draw(constant))


def trees(kinds: dict[str, Kind]) -> st.SearchStrategy[Predicate]:
    base = st.one_of(leaves(kinds), leaves(kinds), st.sampled_from([Constant(True), Constant(False), Constant(None)]))
    return st.recursive(
        base,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=3).map(lambda items: And(tuple(items))),
            st.lists(inner, min_size=1, max_size=3).map(lambda items: Or(tuple(items))),
        ),
        max_leaves=6,
    )


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_random_trees_over_random_tables(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    kinds = {name: KINDS[name] for name in chosen}
    kinds["nested"] = KINDS[data.draw(st.sampled_from(["int8", "double", "string", "decimal(5, 2)", "naive us"]))]
    count = data.draw(st.integers(1, 8))
    columns = {
        name: data.draw(st.lists(st.sampled_from([None, *kind.values]), min_size=count, max_size=count))
        for name, kind in kinds.items()
    }
    leaf = kinds["nested"].array(columns["nested"])
    inner = pa.StructArray.from_arrays([leaf], ["y"], mask=leaf.is_null() if data.draw(st.booleans()) else None)
    nested = pa.StructArray.from_arrays([inner], ["x"], mask=leaf.is_null() if data.draw(st.booleans()) else None)
    check(columns, kinds, data.draw(st.lists(trees(kinds), min_size=1, max_size=8)), nested=nested)
