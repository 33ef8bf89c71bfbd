"""Names of new files: unique, or numbered in order, and numbered once whoever writes."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from datasets_support import fill, left_behind, write
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.errors import InvalidOptionError
from parqlake.datasets.naming import FilenameStrategy, Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap


def test_uuid_based_filename_uniqueness() -> None:
    names = [Naming().fresh() for _ in range(2000)]
    assert len(set(names)) == 2000
    assert all(re.fullmatch(r"part-[0-9a-f]{12}7[0-9a-f]{19}\.parquet", name) for name in names)
    assert Naming().strategy is FilenameStrategy.UUID
    assert Naming("x_{}.parquet", "uuid").fresh() != Naming("x_{}.parquet", "uuid").fresh()


def test_timestamp_based_filename_option() -> None:
    naming = Naming(strategy="timestamp")
    names = [naming.fresh() for _ in range(2000)]
    assert names == sorted(names)
    assert len({name.partition("Z")[0] for name in names}) == 2000
    assert all(re.fullmatch(r"part-\d{8}T\d{15}Z-[0-9a-f]{8}\.parquet", name) for name in names)
    with ThreadPoolExecutor(8) as pool:
        stamps = [name.partition("Z")[0] for name in pool.map(lambda _: naming.fresh(), range(2000))]
    assert len(set(stamps)) == 2000


def test_a_custom_template_is_sequential_unless_told_otherwise() -> None:
    assert Naming("data_{}.parquet").strategy is FilenameStrategy.SEQUENTIAL
    assert Naming("part-{}.parquet", "sequential").numbered(0) == "part-000.parquet"
    assert [Naming("data_{}.parquet").numbered(n) for n in (0, 12, 1234)] == [
        "data_000.parquet",
        "data_012.parquet",
        "data_1234.parquet",
    ]
    with pytest.raises(InvalidOptionError, match="number"):
        Naming("data_{}.parquet").fresh()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], 0),
        (["data_000.parquet"], 1),
        (["data_7.parquet", "data_0012.parquet"], 13),
        (["data_x.parquet", "data_1.parquet.tmp", "other_9.parquet", "data_-3.parquet", "dataX4.parquet"], 0),
        (["data_999.parquet"], 1000),
    ],
)
def test_numbers_go_on_after_the_highest(names: list[str], expected: int) -> None:
    assert Naming("data_{}.parquet").next_number(names) == expected


@given(st.integers(0, 10**9), st.sampled_from(["data_{}.parquet", "{}.parquet", "a.{}+(1).parquet", "9{}9.parquet"]))
def test_a_number_is_read_back(number: int, template: str) -> None:
    naming = Naming(template)
    assert naming.number_of(naming.numbered(number)) == number


@pytest.mark.parametrize(
    "template",
    [
        *("data.parquet", "a{}b{}.parquet", "part-{i}.parquet", "part-{}{x}.parquet", "x/{}.parquet", "..\\{}.parquet"),
        *("{}", "part-{}.parq", "", "_part-{}.parquet", ".{}.parquet", "a\n{}.parquet", "c:{}.parquet", None, 7),
        "x" * 250 + "{}.parquet",
    ],
)
def test_bad_templates_are_named(template: object) -> None:
    with pytest.raises(ValueError, match="basename_template") as caught:
        Naming(template)  # type: ignore[arg-type]
    assert repr(template) in str(caught.value)


@pytest.mark.parametrize("strategy", ["uuids", "UUID", "", 3])
def test_bad_strategies_are_named(strategy: object) -> None:
    with pytest.raises(ValueError, match=r"Invalid filename_strategy .* uuid, timestamp, sequential") as caught:
        Naming(strategy=strategy)  # type: ignore[arg-type]
    assert repr(strategy) in str(caught.value)


def append(place: Place, files: int, folder: str = "") -> list[str]:
    with Swap(place, append=True) as swap:
        staged = [swap.stage_new(Naming("data_{}.parquet"), folder) for _ in range(files)]
        for one in staged:
            write(place, one.full_path, one.final.encode())
        swap.commit()
    return [one.final for one in staged]


def test_sequential_filename_option(place: Place) -> None:
    assert append(place, 2) == ["data_000.parquet", "data_001.parquet"]
    assert append(place, 1) == ["data_002.parquet"]
    assert append(place, 1, "p=1") == ["p=1/data_000.parquet"]
    fill(place, {"data_041.parquet": b"x", "data_100.txt": b"x", "p=1/sub/data_9.parquet": b"x"})
    assert append(place, 1) == ["data_042.parquet"]
    assert append(place, 1, "p=1") == ["p=1/data_001.parquet"]
    assert left_behind(place) == []


def test_a_number_given_up_is_free_again(place: Place) -> None:
    with Swap(place, append=True) as swap:
        assert swap.stage_new(Naming("data_{}.parquet")).final == "data_000.parquet"
        with Swap(place, append=True) as other:  # sees that the name is reserved, though there is no file yet
            assert other.stage_new(Naming("data_{}.parquet")).final == "data_001.parquet"
    assert left_behind(place) == []
    assert append(place, 1) == ["data_000.parquet"]


def test_filename_collision_prevention(tmp_path: Path) -> None:
    place = Place(tmp_path / "data")
    with ThreadPoolExecutor(6) as pool:
        made = [name for names in pool.map(lambda _: append(place, 3), range(12)) for name in names]
    assert sorted(made) == sorted(file.path for file in place.files())
    assert len(set(made)) == 36
    assert all(place.store.read_bytes(name) == name.encode() for name in made)
    assert left_behind(place) == []


APPENDER = """
import sys
from pathlib import Path
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap
place = Place(sys.argv[1])
sys.stdin.readline()
for turn in range(10):
    with Swap(place, append=True) as swap:
        for part in range(2):
            Path(swap.stage_new(Naming("data_{}.parquet")).full_path).write_bytes(f"{sys.argv[2]} {turn}".encode())
        swap.commit()
"""


def test_processes_that_append_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "data"
    command = [sys.executable, "-c", APPENDER, str(root)]
    started = [subprocess.Popen([*command, str(who)], stdin=subprocess.PIPE, text=True) for who in range(3)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        process.communicate()
    assert [process.returncode for process in started] == [0, 0, 0]
    place = Place(root)
    found = sorted(place.store.read_bytes(file.path).decode() for file in place.files())
    assert found == sorted(f"{who} {turn}" for who in range(3) for turn in range(10) for _ in range(2))
    assert left_behind(place) == []
