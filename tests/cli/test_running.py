"""The packaged demo, and pipelines from the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parqlake.core.errors import JavaMissingError
from parqlake.spark.session import check_java

Cli = Callable[..., Any]
PIPELINE = """
[pipeline]
name = "orders"
lake = "warehouse"

[steps.orders]
target = "silver.orders"
source = { files = "orders.json", format = "json", schema = "id bigint, amount double" }
expect = [{ name = "positive", that = "amount >= 0" }]
"""


def test_the_demo_is_a_lake_with_history(cli: Cli, tmp_path: Path) -> None:
    made = cli("demo", "look", "--json", cwd=tmp_path)
    assert made.code == 0, made.err
    assert made.json["tables"] == ["sales.customers", "sales.orders", "sales.scattered"]
    operations = [
        version["operation"]
        for version in cli("log", "sales.orders", "--json", lake=tmp_path / "look").json["versions"]
    ]
    assert operations[::-1] == [*["append"] * 6, "merge", "delete", "evolve", "compact", "optimize"]
    (tmp_path / "mine").mkdir()
    refused = cli("demo", "mine", "--yes", cwd=tmp_path)
    assert refused.code == 2
    assert "is no demo" in refused.err
    assert cli("demo", "look", cwd=tmp_path).code == 2
    assert (tmp_path / "look/catalog.sqlite").exists()


def test_a_pipeline_that_cannot_be_read_is_refused(cli: Cli, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE.replace("target", "taget"))
    wrong = cli("run", "pipeline.toml", cwd=tmp_path)
    assert wrong.code == 2
    assert 'did you mean "target"' in wrong.err
    assert cli("run", "nowhere.py", "--json", cwd=tmp_path).code == 4
    assert "leave --lake" in cli("run", "pipeline.toml", "--lake", "x", cwd=tmp_path).err
    assert cli("runs", "--json", lake=lake).json == {"runs": []}


@pytest.mark.slow
def test_a_pipeline_runs_and_its_exit_code_says_how(cli: Cli, tmp_path: Path) -> None:
    try:
        check_java()
    except JavaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "orders.json").write_text('{"id": 1, "amount": 2.5}\n')
    done = cli("run", "pipeline.toml", "--run-id", "a", "--json", cwd=tmp_path, fresh=True)
    assert done.code == 0, done.err
    assert (done.json["status"], done.json["outputs"][0]["version"]) == ("succeeded", 1)
    (tmp_path / "orders.json").write_text('{"id": 1, "amount": -2.5}\n')
    bad = cli("run", "pipeline.toml", "--run-id", "b", cwd=tmp_path, fresh=True)
    assert bad.code == 5
    assert "positive" in bad.out + bad.err
    listed = cli("runs", lake=tmp_path / "warehouse")
    assert [line[1:3] for line in listed.lines[1:]] == [["b", "failed"], ["a", "succeeded"]]
