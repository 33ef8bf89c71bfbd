"""What `parqlake doctor` looks at: versions, extras, Java, the lake. No secret is ever shown."""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from parqlake.cli.exits import failure_of
from parqlake.cli.report import Record, record
from parqlake.cli.session import Session

_REQUIREMENT = re.compile(r"""([A-Za-z0-9._-]+)[^;]*(?:;.*?extra\s*==\s*['"]([a-z0-9]+)['"])?""")
_BUNDLES = {"all"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what it is.
        status: `"ok"`, `"missing"` (something optional is not there) or `"failed"`.
        detail: what was found, or what mends it.
    """

    name: str
    status: str
    detail: str

    @property
    def row(self) -> tuple[str, str, str]:
        """As the listing has it."""
        return self.status, self.name, self.detail


def examine(session: Session) -> tuple[Record, list[Check]]:
    """Looks at everything; what fails is told, and keeps nothing else from being looked at."""
    from parqlake._version import __version__

    facts = record(
        parqlake=__version__,
        python=platform.python_version(),
        interpreter=sys.executable,
        platform=platform.platform(),
    )
    return facts, [*_packages(), _java(), *_lake(session)]


def _packages() -> Iterator[Check]:
    """What parqlake needs, and what each extra brings, by its own metadata."""
    wanted: dict[str, list[str]] = {}
    for text in metadata.requires("parqlake") or []:
        found = _REQUIREMENT.match(text)
        if found is not None and found.group(1) != "parqlake" and found.group(2) not in _BUNDLES:
            wanted.setdefault(found.group(2) or "", []).append(found.group(1))
    for extra, packages in wanted.items():
        versions = {package: _version(package) for package in packages}
        absent = [package for package, version in versions.items() if version is None]
        there = ", ".join(f"{package} {version}" for package, version in versions.items() if version is not None)
        name = f"extra {extra}" if extra else "packages"
        if not absent:
            yield Check(name, "ok", there)
        elif extra:
            yield Check(name, "missing", f"{', '.join(absent)}: pip install 'parqlake[{extra}]'")
        else:
            yield Check(name, "failed", f"{', '.join(absent)}: pip install parqlake")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _java() -> Check:
    """Only Spark needs it, so that a missing one is no failure."""
    from parqlake.core.errors import JavaMissingError
    from parqlake.spark.session import check_java

    try:
        version = check_java()
    except JavaMissingError as error:
        return Check("Java", "missing", str(error))
    return Check("Java", "ok", "there" if version is None else f"version {version}")


def _lake(session: Session) -> Iterator[Check]:
    """Which lake is meant, by whom, and what it takes to reach it; addresses are shown without passwords."""
    from parqlake.core.errors import LakeNotFoundError

    try:
        address = session.address
    except LakeNotFoundError as error:
        yield Check("lake", "missing", str(error))
        return
    except Exception as error:
        yield Check("lake", "failed", failure_of(error).message)
        return
    options = f", storage options {', '.join(sorted(address.storage_options))}" if address.storage_options else ""
    try:
        started = time.perf_counter()
        lake = session.lake
        names = lake.tables()
        seconds = time.perf_counter() - started
    except Exception as error:
        failure = failure_of(error)
        yield Check("lake", "failed", f"named by {address.source}{options}: {failure.message}")
        return
    yield Check("lake", "ok", f"{lake.url}, named by {address.source}{options}")
    yield Check("catalog", "ok", f"{lake.catalog_url}, {len(names):,} tables, answered in {1000 * seconds:.0f} ms")
    health = lake.health()
    poor = [table.table for table in health.tables if not table.ok]
    said = f"{', '.join(poor)} could be better: parqlake show TABLE" if poor else "nothing to be mended"
    yield Check("tables", "ok", said)
