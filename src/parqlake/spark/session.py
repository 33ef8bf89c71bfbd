"""A Spark session with sane local defaults, and a clear word where Java is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parqlake.core.errors import InvalidOptionError, JavaMissingError, MissingExtraError
from parqlake.engines.spark.settings import SAME_ROWS, UNMEASURED_BATCHES

OLDEST_JAVA = 17
_LOOPBACK = "127.0.0.1"
_LOGGING = Path(__file__).with_name("log4j2.properties")


def session(
    app_name: str = "parqlake",
    *,
    master: str | None = None,
    memory: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Any:
    """Returns a `SparkSession`: the one that is active, untouched, or a new one with defaults that work.

    A new session runs workers on this interpreter, keeps to the loopback interface in local mode, hands rows over as
    Arrow, keeps UTC, writes timestamps that have statistics, retries failed tasks, and logs errors only.

    Args:
        app_name: shown in Spark's own pages.
        master: `local[*]` if left out, or a cluster's address such as `spark://host:7077`.
        memory: the driver's memory, `"4g"` for instance.
        config: further settings; they win over the defaults.

    Raises:
        MissingExtraError: PySpark is not installed.
        JavaMissingError: there is no Java, or one that is too old.
        InvalidOptionError: a session is active already, and settings were given that it does not have.

    Example:
        >>> from parqlake.spark import session
        >>> spark = session()                                           # doctest: +SKIP
        >>> spark = session(master="spark://10.0.0.5:7077")             # doctest: +SKIP
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtraError("PySpark", "spark") from error
    active = SparkSession.getActiveSession()
    wanted = {key: _text(value) for key, value in (config or {}).items()}
    if active is not None:
        _refuse_to_reconfigure(active, master, wanted)
        return active
    check_java()
    chosen = master or "local[*]"
    settings = {**defaults(chosen, memory), **wanted}
    builder = SparkSession.builder.appName(app_name).master(_with_retries(chosen))
    for key, value in settings.items():
        builder = builder.config(key, value)
    if chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def defaults(master: str, memory: str | None) -> dict[str, str]:
    """The settings of a new session."""
    settings = {
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **UNMEASURED_BATCHES,
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.ui.showConsoleProgress": "false",
        **SAME_ROWS,
        "spark.driver.memory": memory or "2g",
        # What is logged while the JVM starts comes before setLogLevel, and would hide what the user's program prints.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }
    if master.startswith("local"):
        cores = os.cpu_count() or 2
        settings |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(max(2 * cores, 4)),
        }
    return settings


def check_java() -> int | None:
    """Raises `JavaMissingError` unless a Java runtime that Spark can use is found; returns its version, if it tells."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = (
        f"Spark needs a Java {OLDEST_JAVA} runtime or newer: install one (Debian and Ubuntu: apt install "
        f"openjdk-{OLDEST_JAVA}-jre-headless) and set JAVA_HOME if it is not on the PATH; "
        'engine="pyarrow" and engine="duckdb" need none'
    )
    if program is None or not Path(program).exists():
        where = f"JAVA_HOME={home} holds no bin/java" if home else "no java was found"
        raise JavaMissingError(f"{where}. {advice}")
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except OSError as error:
        raise JavaMissingError(f"{program} does not run: {error}. {advice}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is not None and int(found.group(1)) < OLDEST_JAVA:
        raise JavaMissingError(f"{program} is Java {found.group(1)}. {advice}")
    return None if found is None else int(found.group(1))


def _with_retries(master: str) -> str:
    """`local[N]` fails a job at the first failed task; `local[N,4]` tries again as a cluster would."""
    found = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    return f"local[{found.group(1) or '1'},4]" if found else master


def _refuse_to_reconfigure(active: Any, master: str | None, wanted: Mapping[str, str]) -> None:
    different = [key for key, value in wanted.items() if active.conf.get(key, None) != value]
    if master is not None and active.conf.get("spark.master", "") not in (master, _with_retries(master)):
        different.append("master")
    if different:
        raise InvalidOptionError(
            f"a Spark session is active already, and differs in {', '.join(sorted(different))}; "
            "stop it first (spark.stop()), or use it as it is: session()"
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
