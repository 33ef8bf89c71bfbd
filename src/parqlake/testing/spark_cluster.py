"""A standalone Spark cluster of one's own for tests: on loopback, from PySpark's own install, gone afterwards."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil  # type: ignore[import-untyped]

from parqlake.core.errors import MissingExtraError
from parqlake.spark.session import check_java

T = TypeVar("T")

_HOST = "127.0.0.1"
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
# Such a JVM lives for seconds: it would spend half of them on compiling well.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER_CLASS = "org.apache.spark.deploy.master.Master"
_WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkClusterError(RuntimeError):
    """The cluster did not get to the state that was asked for; the message holds the end of its logs."""


@dataclass(frozen=True, slots=True)
class Executor:
    """A running executor: its process, the worker's host it runs on, and what Spark calls it."""

    pid: int
    host: str
    app_id: str
    executor_id: str

    def kill(self) -> None:
        """Ends the executor's JVM with kill -9; its Python workers are left to find out for themselves."""
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).kill()


class SparkWorker:
    """One worker of the cluster."""

    def __init__(self, name: str, host: str, process: subprocess.Popen[bytes]) -> None:
        """Made by `SparkCluster.start_worker`."""
        self.name = name
        self.host = host
        self.process = process

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self.process.poll() is None

    def executors(self) -> list[Executor]:
        """The executors that run now, oldest first."""
        if not self.is_running:
            return []
        found = []
        for child in _descendants(self.process):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                command = child.cmdline()
                if _EXECUTOR_CLASS in command:
                    values = [command[command.index(flag) + 1] for flag in ("--app-id", "--executor-id")]
                    found.append(Executor(child.pid, self.host, *values))
        return sorted(found, key=lambda executor: int(executor.executor_id))

    def kill(self) -> None:
        """Ends the worker and its executors with kill -9, as if the machine were gone."""
        _kill([self.process])


class SparkCluster:
    """A running cluster; `url` is what a driver gives as its master, `config` what else it needs."""

    def __init__(self, folder: Path, *, executor_memory: str) -> None:
        """Made by `start_cluster`."""
        self._folder = folder
        self._executor_memory = executor_memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._page: tuple[str, int] = (_HOST, 0)
        self.workers: list[SparkWorker] = []
        self.url = ""
        for name in ("conf", "logs", "local", "work"):
            (folder / name).mkdir()
        # The REST server would listen on a fixed port.
        (folder / "conf" / "spark-defaults.conf").write_text("spark.master.rest.enabled false\n")

    @property
    def config(self) -> dict[str, str]:
        """Settings of a driver: small executors of one core, loopback only, temporary files in the cluster's folder."""
        return {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.ui.enabled": "false",
            "spark.executor.memory": self._executor_memory,
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
            "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
            "spark.local.dir": str(self._folder / "local"),
            "spark.sql.warehouse.dir": str(self._folder / "local" / "warehouse"),
            "spark.sql.shuffle.partitions": "4",
        }

    def executors(self) -> list[Executor]:
        """The executors of all workers that run now."""
        return [executor for worker in self.workers for executor in worker.executors()]

    def pids(self) -> list[int]:
        """Every process of the cluster: master, workers, executors and their Python processes.

        Those whose parent was killed are found, too: by the cluster's folder in the environment they were given.
        """
        return [process.pid for process in _given(str(self._folder / "local"))]

    def status(self) -> dict[str, Any]:
        """What the master says of itself, its workers and applications."""
        connection = http.client.HTTPConnection(*self._page, timeout=10)
        try:
            connection.request("GET", "/json/")
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        finally:
            connection.close()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of each log file."""
        parts = []
        for log in [*sorted((self._folder / "logs").iterdir()), *sorted((self._folder / "work").rglob("stderr"))]:
            end = log.read_text(errors="replace").splitlines()[-lines:]
            parts.append("\n".join([f"== {log.relative_to(self._folder)}", *end]))
        return "\n".join(parts)

    def start_master(self) -> None:
        """Starts the master and waits until it answers; it chooses free ports itself."""
        process = self._start("master", _HOST, [_MASTER_CLASS, "--host", _HOST, "--port", "0", "--webui-port", "0"])
        log = self._folder / "logs" / "master"

        def ports() -> tuple[str, str] | None:
            text = log.read_text(errors="replace")
            url = re.search(r"Starting Spark master at (spark://\S+)", text)
            page = re.search(r"MasterWebUI.*started at http://[^:/\s]+:(\d+)", text)
            return (url.group(1), page.group(1)) if url and page else None

        self.url, page = self._until(ports, process, "the master does not start")
        self._page = (_HOST, int(page))

    def start_worker(self, host: str) -> SparkWorker:
        """Starts a worker of one core on a loopback address; `wait_for_workers` waits until the master knows it."""
        name = f"worker-{len(self.workers)}"
        command = [_WORKER_CLASS, "--host", host, "--port", "0", "--webui-port", "0", "--cores", "1"]
        command += ["--memory", "1g", "--work-dir", str(self._folder / "work" / name), self.url]
        (self._folder / "work" / name).mkdir()
        worker = SparkWorker(name, host, self._start(name, host, command))
        self.workers.append(worker)
        return worker

    def wait_for_workers(self) -> None:
        """Returns once the master has heard of every worker that runs, and of the end of those that do not."""
        running = [worker for worker in self.workers if worker.is_running]

        def registered() -> bool | None:
            alive = [worker for worker in self.status()["workers"] if worker["state"] == "ALIVE"]
            return True if len(alive) == len(running) else None

        self._until(registered, running[-1].process if running else None, f"not all of {len(running)} workers register")

    def wait_for_executors(self, count: int) -> list[Executor]:
        """Returns the executors once there are so many."""

        def enough() -> list[Executor] | None:
            found = self.executors()
            return found if len(found) >= count else None

        return self._until(enough, None, f"there are not {count} executors")

    def stop(self) -> None:
        """Kills every process of the cluster, by process id, and deletes its files. Stopping twice is no error."""
        _kill(self._processes)
        orphans = _given(str(self._folder / "local"))
        for process in orphans:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(orphans, timeout=_STOP_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, name: str, host: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        home = _spark_home()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        environment = kept | {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self._folder / "conf"),
            "SPARK_LOCAL_IP": host,  # what the web pages listen on, too
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS,
        }
        with (self._folder / "logs" / name).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 (our own command)
                [str(home / "bin" / "spark-class"), *command],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a test run ends the tests, which end the cluster
            )
        self._processes.append(process)
        return process

    def _until(self, look: Callable[[], T | None], process: subprocess.Popen[bytes] | None, trouble: str) -> T:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if (found := look()) is not None:
                return found
            if process is not None and process.poll() is not None:
                break
            time.sleep(0.05)
        raise SparkClusterError(f"{trouble}:\n{self.log_tail()}")


@contextlib.contextmanager
def start_cluster(workers: int = 2, *, executor_memory: str = "512m") -> Iterator[SparkCluster]:
    """Runs a master and workers of one core each for the length of the `with` block.

    The workers are on different loopback addresses where the system has them, so that Spark takes them for different
    machines: it runs a speculative copy of a task on another machine only.

    Raises:
        MissingExtraError: PySpark is not installed.
        JavaMissingError: there is no Java that Spark can use.
        SparkClusterError: the cluster does not start; the message shows its logs.
    """
    _spark_home()
    check_java()
    folder = Path(tempfile.mkdtemp(prefix="parqlake-spark-"))
    cluster = SparkCluster(folder, executor_memory=executor_memory)
    try:
        cluster.start_master()
        for host in loopback_addresses(workers):
            cluster.start_worker(host)
        cluster.wait_for_workers()
        yield cluster
    finally:
        cluster.stop()


def loopback_addresses(count: int) -> list[str]:
    """127.0.0.1, 127.0.0.2 … as far as this system has them, and 127.0.0.1 again for the rest."""
    return [host if _can_listen(host) else _HOST for host in (f"127.0.0.{number + 1}" for number in range(count))]


def _can_listen(host: str) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            return False
        return True


def _spark_home() -> Path:
    # Not imported: that takes long, and only the folder is needed.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise MissingExtraError("PySpark", "spark")
    return Path(found.origin).parent


def _descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def _given(local_dirs: str) -> list[psutil.Process]:
    """The processes that were started with this value of SPARK_LOCAL_DIRS, by us or by one another."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("SPARK_LOCAL_DIRS") == local_dirs and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _kill(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kills the processes and all they have started; a process that is gone already is no error."""
    running = [process for process in processes if process.poll() is None]
    everything = [child for process in running for child in _descendants(process)]
    for process in running:  # first, so that a worker does not start another executor
        process.kill()
    for child in everything:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()  # psutil makes sure that it is still the same process
    for process in running:
        process.wait(_STOP_SECONDS)
    psutil.wait_procs(everything, timeout=_STOP_SECONDS)
