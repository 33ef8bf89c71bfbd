"""Pipelines from files: the same steps as in Python, and every mistake named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from parqlake.core.errors import FileNotInStoreError, InvalidOptionError
from parqlake.pipeline import cursor, load, run_file
from parqlake.pipeline.landing import NewFiles
from parqlake.pipeline.steps import Mode

CONFIG = """
[pipeline]
name = "orders"
lake = "warehouse"

[steps.orders]
target = "silver.orders"
source = { new_files = "landing", format = "json", schema = "id bigint", options = { token = "${TOKEN}" } }
sql = "select * from {batch}"
mode = "merge"
keys = ["id"]
dedupe = "at desc"
expect = [
  { name = "id", that = "id is not null" },
  { name = "ok", that = "n > 0", quarantine = "silver.bad" },
  { unique = ["id"], warn = true },
  { row_count = [1, 10] },
]
maintain = { compact = "128MB", cluster_by = ["id"] }

[steps.late]
target = "gold.late"
source = { table = "crm.late" }
mode = "merge"
keys = ["id"]
incremental = { cursor = "at", lookback = "2h" }
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOKEN", "hidden")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/a.json").write_text('{"id": 1}')
    (tmp_path / "landing/_b.json").write_text('{"id": 1}')
    path = tmp_path / "pipeline.toml"
    path.write_text(CONFIG)
    return path


def test_a_toml_file_is_the_same_pipeline(config: Path) -> None:
    pipeline = load(config)
    step, late = pipeline.steps
    assert late.incremental == cursor("at", lookback="2h")
    assert (step.name, step.target, step.mode, step.keys) == ("orders", "silver.orders", Mode.MERGE, ("id",))
    assert [(rule.name, str(rule.action)) for rule in step.expect] == [
        ("id", "fail"),
        ("ok", "quarantine"),
        ("unique(id)", "warn"),
        ("row_count(1, 10)", "fail"),
    ]
    source = step.sources["batch"]
    assert isinstance(source, NewFiles)
    assert source.options == {"token": "hidden"}
    assert "hidden" not in repr(step)
    outcome = run_file(config, plan=True)
    assert outcome.exit_code == 0
    assert f"1 new files, 9 bytes, in {config.parent}/landing" in outcome.text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("target =", "targets =", 'did you mean "target"'),
        ("name =", "title =", '"title"'),
        ("[steps.orders]", "[step.orders]", 'did you mean "steps"'),
        ("${TOKEN}", "${NO_SUCH_TOKEN}", "NO_SUCH_TOKEN"),
        ("${TOKEN}", "hidden", "source.options.token is a secret that stands in the file"),
        (
            '"warehouse"',
            '"warehouse"\ncatalog = "postgresql://etl:hidden@db/lake"',
            "catalog is an address with a password",
        ),
        ("new_files =", "newfiles =", "must name one of"),
        ("lookback", "look_back", 'did you mean "lookback"'),
        ("compact", "compaction", 'did you mean "compact"'),
        ('that = "n > 0", quarantine', 'that = "n > 0", warn = true, quarantine', "choose one"),
        ('{ unique = ["id"], warn = true }', '{ unique = ["id"], quarantine = "a.b" }', "only warn or fail"),
        ('{ unique = ["id"], warn', '{ unique = ["id"], fresh = "x", warn', "more than one rule"),
        ("[pipeline]", "[pipeline", "as TOML"),
        ("source = {", "sources = {", "write for instance"),
        ('"merge"', '"mrge"', 'did you mean "merge"'),
    ],
)
def test_mistakes_are_named(config: Path, old: str, new: str, message: str) -> None:
    config.write_text(CONFIG.replace(old, new, 1))
    with pytest.raises(InvalidOptionError, match=message.replace("$", r"\$")) as raised:
        load(config)
    assert "hidden" not in str(raised.value)
    assert run_file(config).exit_code == 1


def test_a_python_file_holds_one_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "names.py").write_text("TARGET = 'silver.orders'\n")
    path = tmp_path / "orders_pipeline.py"
    text = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from names import TARGET\n"
        "@dataclass\n"
        "class Order:\n"
        "    number: int = 0\n"
        "from parqlake.pipeline import Pipeline\n"
        f"p = Pipeline('orders', lake={str(tmp_path / 'lake')!r})\n"
        "@p.step(target=TARGET)\n"
        "def orders():\n"
        "    from more_names import MORE\n"
        "    return MORE\n"
    )
    path.write_text(text)
    (step,) = load(path).steps
    (tmp_path / "more_names.py").write_text("MORE = 7\n")
    assert (step.target, step.function()) == ("silver.orders", 7)
    assert "orders_pipeline" not in sys.modules
    path.write_text(text + "q = Pipeline('other', lake=p.lake)\n")
    with pytest.raises(InvalidOptionError, match="there are: p, q"):
        load(path)
    path.write_text("raise RuntimeError('of the user')\n")
    outcome = run_file(path)
    assert (outcome.exit_code, outcome.text) == (1, "RuntimeError: of the user")
    with pytest.raises(FileNotInStoreError):
        load(tmp_path / "missing.toml")
    (tmp_path / "x.yaml").touch()
    with pytest.raises(InvalidOptionError, match="neither"):
        load(tmp_path / "x.yaml")
