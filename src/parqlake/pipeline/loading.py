"""A pipeline by its file, Python or TOML, and a run of it with an exit code that a scheduler understands."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from parqlake.core.errors import ConflictError, FileNotInStoreError, InvalidOptionError, ParqlakeError, QualityError
from parqlake.pipeline.pipeline import Pipeline, PipelinePlan
from parqlake.pipeline.report import Run, RunReport

OK, ERROR, CONFLICT, QUALITY = 0, 1, 3, 5
"""Exit codes: done, or done before; it failed; another commit was in the way, so run it again; bad data."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of running a file.

    Attributes:
        exit_code: 0 done, 1 failed, 3 another commit was in the way, 5 an expectation does not hold.
        text: the plan or report, for people.
        data: the same, for JSON.
        error: what went wrong, if something did.
    """

    exit_code: int
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    error: Exception | None = None


def load(path: str | PathLike[str]) -> Pipeline:
    """The pipeline of a Python file, in a variable at its top level, or of a TOML file.

    Raises:
        FileNotInStoreError: there is no such file.
        InvalidOptionError: the file describes no pipeline, or several.

    Example:
        >>> load("pipeline.toml").plan()   # doctest: +SKIP
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotInStoreError(f"there is no file {file}; give the pipeline's .py or .toml file")
    if file.suffix == ".toml":
        from parqlake.pipeline.config import read_config

        return read_config(file)
    if file.suffix != ".py":
        raise InvalidOptionError(f"{file} is neither a .py nor a .toml file")
    return _only(_executed(file), file)


def run_file(
    path: str | PathLike[str],
    *,
    plan: bool = False,
    run_id: str | None = None,
    backfill: tuple[Any, Any, Any] | None = None,
) -> Outcome:
    """Plans or runs the pipeline of a file, and says by an exit code how it went.

    Errors of parqlake are part of the outcome; others, such as those of the steps' own code, are too, with code 1.

    Example:
        >>> run_file("pipeline.py", run_id="2026-11-15").exit_code   # doctest: +SKIP
        0
    """
    try:
        pipeline = load(path)
        if plan:
            planned: PipelinePlan = pipeline.plan()
            return Outcome(OK, str(planned), planned.to_dict())
        run = pipeline.run(run_id=run_id, backfill=backfill)
    except QualityError as error:
        report = error.report
        told = str(report) if isinstance(report, RunReport) else str(error)
        return Outcome(QUALITY, told, report.to_dict() if isinstance(report, RunReport) else {}, error)
    except ConflictError as error:
        return Outcome(CONFLICT, str(error), {}, error)
    except ParqlakeError as error:
        return Outcome(ERROR, str(error), {}, error)
    except Exception as error:  # what a step's own code raises is an outcome too
        return Outcome(ERROR, f"{type(error).__name__}: {error}", {}, error)
    return Outcome(OK, _told(run), {"replayed": run.replayed, **run.report.to_dict()})


def _told(run: Run) -> str:
    if run.windows:
        done = sum(not window.replayed for window in run.windows)
        return f"{done} of {len(run.windows)} windows run, the others were done before\n{run.report}"
    return f"run before, nothing done now\n{run.report}" if run.replayed else str(run.report)


def _executed(file: Path) -> Mapping[str, Any]:
    """The names of a Python file, run as a module; files beside it can be imported by it, and by its steps later.

    The module is known to Python only while it is run, which dataclasses need. Afterwards it is not, so that Spark
    sends the functions of the file to its workers whole: those could not import it.
    """
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    before = sys.modules.get(spec.name)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        if before is None:
            sys.modules.pop(spec.name, None)
        else:
            sys.modules[spec.name] = before
    return vars(module)


def _only(names: Mapping[str, Any], file: Path) -> Pipeline:
    found = {id(value): (name, value) for name, value in names.items() if isinstance(value, Pipeline)}
    if len(found) != 1:
        told = ", ".join(name for name, _ in found.values()) or "none"
        raise InvalidOptionError(f"{file} must hold one Pipeline in a variable; there are: {told}")
    ((_, pipeline),) = found.values()
    return pipeline
