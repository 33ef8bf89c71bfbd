"""Every type, with its awkward values, comes back as it was written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from parqlake import Lake, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import TYPES, TypeCase, bag, rows, state
from parqlake.testing.frames import spark_holds
from parqlake.testing.plugin import Feed, Read

pytestmark = pytest.mark.engine_work

UNSTORABLE = [
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.null(),
    pa.decimal256(50, 3),
    pa.decimal128(5, -2),
    pa.struct([]),
    pa.dense_union([pa.field("a", pa.int64())]),
    pa.list_(pa.duration("s")),
]


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case.name)
def test_a_type_round_trips(
    case: TypeCase, lake: Lake, feed: Feed, read: Read, must_hold: Callable[[pa.DataType], None]
) -> None:
    must_hold(case.type)
    table = lake.create_table("types.kept", case.schema)
    assert table.schema() == case.schema
    written = case.table()
    table.append(feed(written))
    found = read(table.scan())
    assert found.schema == case.schema
    assert rows(found) == rows(written)


def test_all_types_stand_in_one_table(lake: Lake, types: tuple[TypeCase, ...], feed: Feed, read: Read) -> None:
    wide = pa.table({case.name: pa.concat_arrays([case.array()] * 8)[:24] for case in types})
    table = lake.create_table("types.wide", wide)
    table.append(feed(wide), row_group_size=5, max_rows_per_file=10)
    found = read(table.scan())
    for case in types:
        assert rows(found.select([case.name])) == rows(wide.select([case.name])), case.name


def test_not_null_is_part_of_the_schema(lake: Lake, feed: Feed) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    table = lake.create_table("types.strict", schema)
    assert table.schema() == schema
    table.append(feed(pa.table({"id": [1, 2], "name": ["a", None]})))
    assert table.scan().to_arrow().schema == schema
    with pytest.raises(errors.ConstraintError, match='"id" is NOT NULL'):
        table.append(feed(pa.table({"id": pa.array([3, None]), "name": ["b", "c"]})))
    assert table.version == 1


def test_what_tables_cannot_hold_is_refused_by_name(lake: Lake, subtests: pytest.Subtests) -> None:
    before = state(lake)
    for type_ in UNSTORABLE:
        with subtests.test(type=str(type_)):
            with pytest.raises(errors.UnsupportedTypeError, match="odd") as caught:
                lake.create_table("types.odd", pa.schema([("fine", pa.int64()), ("odd", type_)]))
            assert str(type_.value_type if pa.types.is_list(type_) else type_) in str(caught.value) or "struct" in str(
                caught.value
            )
    assert state(lake) == before


def test_what_spark_cannot_hold_is_refused_by_name_and_by_spark_alone(
    place: LakePlace, subtests: pytest.Subtests
) -> None:
    cases = [case for case in TYPES if not spark_holds(case.type)]
    assert {case.name for case in cases} > {"uint8", "uint64", "time_us", "timestamp_ns", "timestamp_ns_utc"}
    with place.connect(engine="pyarrow") as first:
        for case in cases:
            first.create_table(f"types.{case.name}", case.schema).append(case.table())
    with place.connect() as lake:
        before = state(lake)
        for case in cases:
            table = lake.table(f"types.{case.name}")
            if place.backend.engine != "spark":
                table.append(case.table())
                assert bag(table.scan().to_arrow()) == bag(pa.concat_tables([case.table()] * 2)), case.name
                continue
            nested = pa.schema([(case.name, pa.list_(case.type))])
            calls: list[Callable[[], object]] = [
                partial(table.append, case.table()),
                partial(table.overwrite, case.table(), where="id = 1"),
                table.scan().to_spark,
                partial(lake.create_table, "types.nested", nested),
            ]
            with subtests.test(type=case.name):
                for call in calls:
                    with pytest.raises(errors.UnsupportedTypeError, match=f'column "{case.name}') as caught:
                        call()
                    assert str(case.type) in str(caught.value)
                assert state(lake) == before


def test_layouts_become_one_spelling(
    lake: Lake, subtests: pytest.Subtests, must_hold: Callable[[pa.DataType], None]
) -> None:
    spellings = {
        pa.string(): [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
        pa.binary(): [pa.large_binary(), pa.binary_view(), pa.binary(4)],
        pa.date32(): [pa.date64()],
        pa.time64("us"): [pa.time32("s"), pa.time32("ms")],
        pa.timestamp("us"): [pa.timestamp("s"), pa.timestamp("ms")],
        pa.timestamp("us", "Asia/Tokyo"): [pa.timestamp("ms", "Asia/Tokyo")],
        pa.float32(): [pa.float16()],
        pa.decimal128(7, 2): [pa.decimal256(7, 2), pa.decimal32(7, 2), pa.decimal64(7, 2)],
        pa.int16(): [pa.run_end_encoded(pa.int32(), pa.int16())],
        pa.list_(pa.field("element", pa.string())): [
            pa.large_list(pa.string()),
            pa.list_(pa.large_string(), 3),
            pa.list_view(pa.string()),
        ],
        pa.struct([("s", pa.string())]): [pa.struct([("s", pa.large_string())])],
    }
    for number, (kept, others) in enumerate(spellings.items()):
        for other in others:
            with subtests.test(type=str(other)):
                must_hold(kept)
                name = f"types.t{number}_{others.index(other)}"
                table = lake.create_table(name, pa.schema([("a", other), ("b", pa.int32())]))
                assert table.schema().field("a").type == kept
