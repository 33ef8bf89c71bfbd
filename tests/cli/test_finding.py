"""Where the lake is: who wins, what a configuration may say, and what it says when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from parqlake.cli.finding import find_lake
from parqlake.core.errors import InvalidOptionError, LakeNotFoundError


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "parqlake.toml").write_text('lake = "of-file"\ncatalog = "sqlite:///c.sqlite"\n')
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    environ = {"PARQLAKE_LAKE": "of-env", "PARQLAKE_CATALOG": "postgresql://h/d"}
    by_hand = find_lake("given", None, environ=environ, folder=below)
    assert (by_hand.root, by_hand.catalog, by_hand.source) == ("given", None, "--lake")
    by_env = find_lake(None, None, environ=environ, folder=below)
    assert (by_env.root, by_env.catalog, by_env.source) == ("of-env", "postgresql://h/d", "PARQLAKE_LAKE")
    by_file = find_lake(None, None, environ={}, folder=below)
    assert (by_file.root, by_file.source) == (str(tmp_path / "of-file"), str(tmp_path / "parqlake.toml"))
    assert by_file.catalog == f"sqlite:///{tmp_path}/c.sqlite"
    assert find_lake(None, "duckdb:///x.duckdb", environ={}, folder=below).catalog == "duckdb:///x.duckdb"


def test_a_file_takes_secrets_from_the_environment_and_shows_none(tmp_path: Path) -> None:
    (tmp_path / "parqlake.toml").write_text(
        'lake = "s3://bucket/${PLACE}"\ncatalog = "postgresql://me:${PASSWORD}@h/d"\n'
        '[storage_options]\nkey = "k"\nsecret = "${PASSWORD}"\nnested = { region = "${PLACE}", n = 3 }\n'
    )
    environ = {"PLACE": "eu", "PASSWORD": "hush"}
    found = find_lake(None, None, environ=environ, folder=tmp_path)
    assert found.root == "s3://bucket/eu"
    assert found.catalog == "postgresql://me:hush@h/d"
    assert found.storage_options == {"key": "k", "secret": "hush", "nested": {"region": "eu", "n": 3}}
    assert "hush" not in repr(found)
    with pytest.raises(InvalidOptionError, match=r"catalog wants \$\{PASSWORD\}.*set PASSWORD"):
        find_lake(None, None, environ={"PLACE": "eu"}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('lak = "x"', 'unknown key "lak"; did you mean "lake"'),
        ('catalog = "x"', "names no lake"),
        ("lake = 3", "names no lake"),
        ('lake = "x"\ncatalog = 3', "catalog must be a text"),
        ('lake = "x"\nstorage_options = "y"', "must be a table"),
        ('lake = "', "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "parqlake.toml").write_text(text)
    with pytest.raises(InvalidOptionError, match=said) as caught:
        find_lake(None, None, environ={}, folder=tmp_path)
    assert "parqlake.toml" in str(caught.value)


def test_nobody_says_where(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFoundError, match=r"--lake.*PARQLAKE_LAKE.*parqlake\.toml"):
        find_lake(None, None, environ={}, folder=tmp_path / "nowhere")
