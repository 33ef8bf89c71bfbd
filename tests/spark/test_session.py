"""The session: defaults that work, one clear error without Java, and no silent changes to a session one brings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parqlake.core.errors import InvalidOptionError, JavaMissingError
from parqlake.spark.session import check_java, session


def test_the_defaults_hold(spark: Any) -> None:
    assert spark.conf.get("spark.pyspark.python") == sys.executable
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master == "local[2,4]"


def test_an_active_session_is_used_as_it_is(spark: Any) -> None:
    assert session() is spark
    with pytest.raises(InvalidOptionError, match=r"spark\.sql\.session\.timeZone"):
        session(config={"spark.sql.session.timeZone": "Asia/Tokyo"})
    with pytest.raises(InvalidOptionError, match="master"):
        session(master="local[7]")
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_without_java_one_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissingError, match=r"no java was found.*openjdk-17"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match="JAVA_HOME="):
        check_java()


def test_an_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match="is Java 8"):
        check_java()


def test_the_other_engines_need_no_java(tmp_path: Path) -> None:
    script = (
        "import sys, parqlake, pyarrow as pa\n"
        "t = parqlake.connect(sys.argv[1]).create_table('a.b', pa.schema([('x', pa.int64())]))\n"
        "t.append(pa.table({'x': [1]}))\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    environment = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "lake")], check=True, env=environment)
