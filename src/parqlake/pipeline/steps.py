"""A step: where its rows come from, what they become, and everything that can be found wrong before it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Required, TypedDict, Unpack

from parqlake.core.errors import InvalidOptionError, suggestion
from parqlake.core.evolution.write_modes import SchemaMode, schema_mode
from parqlake.core.merging import MergeStrategy
from parqlake.core.names import parse_table_name
from parqlake.pipeline.dedupe import Order, parse_order
from parqlake.pipeline.expectations import Action, Expectation, RowRule, TableRule, checked_expectations
from parqlake.pipeline.maintain import Maintain
from parqlake.pipeline.reading import Source, Taken
from parqlake.pipeline.windows import Cursor

BATCH = "batch"
"""The parameter that a step's only source comes by."""
GIVEN = ("since", "until", "spark", "lake", "run_id")
"""Parameters that any step's function may have."""


class StepOptions(TypedDict, total=False):
    """What `Pipeline.step` takes; it says what each means."""

    target: Required[str]
    name: str | None
    source: Source | Mapping[str, Source] | None
    reads: Sequence[str] | str
    mode: str
    keys: Sequence[str] | str
    strategy: str | None
    effective: str | None
    where: str | None
    incremental: Cursor | None
    dedupe: str | Sequence[str] | None
    schema_mode: str | None
    expect: Sequence[Expectation] | Expectation
    maintain: Maintain | None
    partition_by: Sequence[str] | str
    properties: Mapping[str, Any] | None


class Mode(StrEnum):
    """What the rows of a step do to its target."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    MERGE = "merge"
    SNAPSHOT = "snapshot"
    SCD2 = "scd2"

    @property
    def by_keys(self) -> bool:
        """Whether rows meet the target's by key, so that a row that is seen again does no harm."""
        return self in (Mode.MERGE, Mode.SNAPSHOT, Mode.SCD2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a pipeline, checked. Made by `Pipeline.step`."""

    name: str
    target: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    """What the function asks for, by name."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    reads: frozenset[str] = frozenset()
    """Tables that the function reads by itself."""
    mode: Mode = Mode.APPEND
    keys: tuple[str, ...] = ()
    strategy: MergeStrategy = MergeStrategy.UPSERT
    effective: str | None = None
    """Of SCD2: the column that says since when a row holds."""
    where: str | None = None
    """Of an overwrite: the rows that are replaced."""
    incremental: Cursor | None = None
    dedupe: tuple[Order, ...] = ()
    schema_mode: SchemaMode = SchemaMode.STRICT
    expect: tuple[Expectation, ...] = ()
    maintain: Maintain | None = None
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row_rules(self) -> tuple[RowRule, ...]:
        """The expectations of single rows."""
        return tuple(rule for rule in self.expect if isinstance(rule, RowRule))

    @property
    def table_rules(self) -> tuple[TableRule, ...]:
        """The expectations of many rows together."""
        return tuple(rule for rule in self.expect if isinstance(rule, TableRule))

    @property
    def quarantines(self) -> tuple[str, ...]:
        """The tables that rejected rows go to."""
        found = (rule.table for rule in self.row_rules if rule.action is Action.QUARANTINE)
        return tuple(dict.fromkeys(table for table in found if table is not None))

    @property
    def tables_read(self) -> frozenset[str]:
        """The tables that it reads in the run's own transaction."""
        asked = {rule.table for rule in self.table_rules if rule.table is not None}
        return self.reads | {name for source in self.sources.values() for name in source.tables} | asked

    @property
    def deletes_missing(self) -> bool:
        """Whether keys that do not come any more are deleted from the target."""
        return self.mode is Mode.SNAPSHOT or (self.mode is Mode.MERGE and self.strategy.deletes)

    @property
    def rejects(self) -> bool:
        """Whether expectations keep rows from the target."""
        return any(rule.action in (Action.DROP, Action.QUARANTINE) for rule in self.row_rules)

    @property
    def tables_written(self) -> frozenset[str]:
        """The tables that it writes."""
        return frozenset((self.target, *self.quarantines))


def make_step(function: Callable[..., Any], **options: Unpack[StepOptions]) -> Step:
    """Checks the options of a step, one by one and together; raises `InputError` that says what to do."""
    if not callable(function):
        raise InvalidOptionError(f"a step is a function that returns rows, not {function!r}")
    given: Mapping[str, Any] = options
    target = str(parse_table_name(given["target"]))
    name = given.get("name") or getattr(function, "__name__", "")
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise InvalidOptionError(f"the step that writes {target} has no name; give one: name='orders'")
    place = f'step "{name}": '
    sources = _sources(given.get("source"), place)
    step = Step(
        name=name,
        target=target,
        function=function,
        parameters=_parameters(function, sources, place),
        sources=sources,
        reads=frozenset(str(parse_table_name(table)) for table in _texts(given.get("reads"), f"{place}reads")),
        mode=_choice(Mode, given.get("mode", "append"), f"{place}mode"),
        keys=_texts(given.get("keys"), f"{place}keys"),
        strategy=_choice(MergeStrategy, given.get("strategy") or "upsert", f"{place}strategy"),
        effective=given.get("effective"),
        where=given.get("where"),
        incremental=_cursor(given.get("incremental"), place),
        dedupe=() if given.get("dedupe") is None else parse_order(given["dedupe"]),
        schema_mode=schema_mode(given.get("schema_mode")),
        expect=checked_expectations(given.get("expect", ())),
        maintain=_maintain(given.get("maintain"), place),
        partition_by=_texts(given.get("partition_by"), f"{place}partition_by"),
        properties=dict(given.get("properties") or {}),
    )
    _check_together(step, given.get("strategy"), place)
    return step


def lacking(step: Step, taken: dict[str, Taken]) -> str:
    """Why the step cannot run, or need not; a source without news beside one with some becomes a frame without rows."""
    remembering = {name for name in taken if getattr(step.sources[name], "remembers", False)}
    for name, one in taken.items():
        if one.frame is None and name not in remembering:
            return f"{', '.join(read.name for read in one.inputs)} is not there yet"
    if remembering and all(taken[name].frame is None for name in remembering):
        return "nothing new"
    for name in remembering:
        one = taken[name]
        if one.frame is None and one.empty is None:
            return f"nothing new for {name}, whose columns are not known; give it a schema"
        if one.frame is None and one.empty is not None:
            taken[name] = replace(one, frame=one.empty())
    return ""


def _check_together(step: Step, strategy: str | None, place: str) -> None:
    mode = step.mode
    if mode.by_keys and not step.keys:
        raise InvalidOptionError(f'{place}mode="{mode}" matches rows by key; say which: keys=["id"]')
    if step.keys and not mode.by_keys and not step.dedupe:
        raise InvalidOptionError(f'{place}keys={list(step.keys)} mean nothing to mode="{mode}"; use mode="merge"')
    if step.dedupe and not step.keys:
        raise InvalidOptionError(f"{place}dedupe takes one row for each key; say which: keys=['id']")
    if strategy is not None and mode is not Mode.MERGE:
        raise InvalidOptionError(f'{place}strategy={strategy!r} is for mode="merge", not for mode="{mode}"')
    if step.effective is not None and mode is not Mode.SCD2:
        raise InvalidOptionError(f'{place}effective={step.effective!r} is for mode="scd2", not for mode="{mode}"')
    if step.where is not None and mode is not Mode.OVERWRITE:
        raise InvalidOptionError(f'{place}where={step.where!r} is for mode="overwrite", not for mode="{mode}"')
    cursor = step.incremental
    if cursor is not None and cursor.lookback and not mode.by_keys:
        raise InvalidOptionError(
            f'{place}a lookback sees rows again, which mode="{mode}" would write again; use mode="merge" with keys, or '
            "leave the lookback out"
        )
    remembering = any(getattr(source, "remembers", False) for source in step.sources.values())
    if cursor is not None and remembering:
        raise InvalidOptionError(
            f"{place}new_files(…) and changes(…) remember by themselves what is new, and a cursor would leave out rows "
            "of it for good; leave incremental out"
        )
    if step.deletes_missing:
        _check_snapshot(step, place, remembering=remembering)
    if cursor is not None and mode is Mode.OVERWRITE and step.where is None:
        raise InvalidOptionError(
            f'{place}mode="overwrite" would replace all rows by the new ones; use "append" or "merge", or say by '
            "where= which rows are replaced"
        )
    if step.target in step.quarantines:
        raise InvalidOptionError(f"{place}rows that are rejected cannot go to {step.target}, the target itself")


def _check_snapshot(step: Step, place: str, *, remembering: bool) -> None:
    """What would delete rows that are still there must not come together with modes that delete what does not come."""
    how = f'mode="{step.mode}"' + ("" if step.mode is Mode.SNAPSHOT else f' with strategy="{step.strategy}"')
    if step.incremental is not None:
        raise InvalidOptionError(f"{place}{how} needs all rows each time; leave incremental out")
    if remembering:
        raise InvalidOptionError(
            f"{place}{how} needs all rows each time, and new_files(…) and changes(…) give only the new ones; use "
            'files(…) or table(…), or mode="merge"'
        )
    if step.rejects:
        raise InvalidOptionError(
            f"{place}{how} would delete the row of a key whose new row is dropped or quarantined; let such "
            "expectations .warn() or .fail(), or check the rows in a step of their own before this one"
        )


def _sources(given: Any, place: str) -> dict[str, Source]:
    if given is None:
        return {}
    named = dict(given) if isinstance(given, Mapping) else {BATCH: given}
    for name, source in named.items():
        if not hasattr(source, "take") or not hasattr(source, "tables"):
            raise InvalidOptionError(
                f"{place}source={source!r} is no source; use new_files(…), files(…), table(…), changes(…) or jdbc(…)"
            )
        if name in GIVEN or not str(name).isidentifier():
            raise InvalidOptionError(f"{place}a source cannot be called {name!r}; use another name for the parameter")
    return named


def _parameters(function: Callable[..., Any], sources: Mapping[str, Source], place: str) -> tuple[str, ...]:
    known = (*GIVEN, *sources)
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidOptionError(f"{place}its function takes {name!r} by position; parameters are given by name")
        if name in known:
            found.append(name)
        elif parameter.default is parameter.empty:
            raise InvalidOptionError(
                f"{place}its function asks for {name!r}, which there is not;{suggestion(name, known)} there are: "
                f"{', '.join(known)}"
            )
    return tuple(found)


def _choice(kind: Any, value: Any, option: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        known = [str(choice) for choice in kind]
        raise InvalidOptionError(
            f"{option}={value!r} is unknown;{suggestion(str(value), known)} use one of {', '.join(known)}"
        ) from None


def _texts(value: Any, option: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value or ())
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidOptionError(f"{option}={value!r} must be a list of names")
    return names


def _cursor(value: Any, place: str) -> Cursor | None:
    if value is None or isinstance(value, Cursor):
        return value
    raise InvalidOptionError(f"{place}incremental={value!r} is no cursor; write for instance cursor('updated_at')")


def _maintain(value: Any, place: str) -> Maintain | None:
    if value is None or isinstance(value, Maintain):
        return value
    raise InvalidOptionError(f'{place}maintain={value!r}: write for instance maintain(compact="128MB")')
