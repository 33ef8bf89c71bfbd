"""Whole rows compared, of every type: equal rows have equal numbers and hashes, and others have other numbers."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import parqlake
from parqlake.core.changes import CHANGE
from parqlake.engines.arrow import row_matching
from parqlake.engines.arrow.changes import change_batches
from parqlake.engines.arrow.row_codes import occurrences, row_codes, row_hashes
from parqlake.engines.arrow.row_matching import equal_rows
from parqlake.testing.data import TYPES, TypeCase, bag, rows


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case.name)
def test_equal_values_and_no_others_have_equal_numbers(case: TypeCase) -> None:
    once = case.array()
    both = pa.table([pa.concat_arrays([once, once.take(pa.array(range(len(once))[::-1]))])], names=["x"])
    plain = [_without_signs(row) for row in rows(both)]
    codes, hashes = row_codes(both).tolist(), row_hashes(both).tolist()
    for (one, code, digest), (other, code2, digest2) in itertools.combinations(
        zip(plain, codes, hashes, strict=True), 2
    ):
        assert (one == other) == (code == code2)
        assert one != other or digest == digest2
    # A hash is the same whatever stands beside the row.
    assert row_hashes(both.slice(0, 1)).tolist() + row_hashes(both.slice(1)).tolist() == hashes


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case.name)
@pytest.mark.parametrize("collide", [False, True])
def test_equal_rows_are_found_whatever_their_hashes(
    case: TypeCase, collide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collide:
        monkeypatch.setattr(row_matching, "row_hashes", lambda rows: np.full(rows.num_rows, 7, dtype=np.uint64))
    old = case.table().append_column("same", pa.nulls(len(case.values)))
    new = pa.concat_tables([old.slice(1).take(pa.array(range(len(case.values) - 1))[::-1]), old.slice(1, 1)])
    of_old, of_new = equal_rows(old, new)
    assert of_old.tolist() == [False] + [True] * (old.num_rows - 1)
    assert of_new.tolist() == [True] * (old.num_rows - 1) + [False]


def test_rows_of_several_columns() -> None:
    table = pa.table({"a": [1, 1, None, None, 1], "b": ["x", None, "x", None, "x"], "c": pa.nulls(5)})
    assert row_codes(table).tolist() == [0, 1, 2, 3, 0]
    assert len(set(row_hashes(table).tolist())) == 4
    assert occurrences(row_codes(table)).tolist() == [0, 0, 0, 0, 1]
    assert row_codes(table.slice(0, 0)).tolist() == row_hashes(table.slice(0, 0)).tolist() == []


def test_little_memory_gives_the_same_changes(tmp_path: Path) -> None:
    count = 4000
    with parqlake.connect(tmp_path / "lake") as lake:
        texts, lists = [f"text {n % 50}" for n in range(count)], [[n] for n in range(count)]
        data = pa.table({"id": range(count), "s": texts, "l": lists})
        table = lake.create_table("a.b", data)
        table.append(data, max_rows_per_file=500)
        table.append(data.slice(0, 10))
        table.update("id % 7 = 0", set={"s": "'other'"})
        table.delete("id % 11 = 0")
        scan = table.changes(1, keys=["id"])
        spilled = tmp_path / "spilled"
        spilled.mkdir()
        little = change_batches(scan.plan, lake.context.store, memory_bytes=20_000, spill_folder=str(spilled))
        found = little.read_all()
        assert bag(found) == bag(scan.to_arrow())
        assert Counter(found.column(CHANGE).to_pylist()) == {"update": 520, "delete": 364, "insert": 9}
        assert list(spilled.iterdir()) == []


def _without_signs(value: object) -> object:
    """0.0 and -0.0 are equal."""
    if isinstance(value, tuple):
        if len(value) == 2 and value[0] == 0.0 and isinstance(value[0], float):
            return 0.0
        return tuple(map(_without_signs, value))
    return value
