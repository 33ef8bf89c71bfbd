"""A pipeline from a TOML file: the same steps, said in keys; secrets come from the environment only.

Example:
    [pipeline]
    name = "orders"
    lake = "warehouse"

    [steps.orders]
    target = "silver.orders"
    source = { new_files = "landing/orders", format = "json", schema = "order_id bigint, amount double" }
    sql = "select *, amount * 1.2 as gross from {batch}"
    mode = "merge"
    keys = ["order_id"]
    expect = [{ name = "positive", that = "amount >= 0", quarantine = "silver.orders_bad" }]
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parqlake.core.errors import InvalidOptionError, suggestion
from parqlake.core.variables import VARIABLE, expanded
from parqlake.pipeline import expectations, sources
from parqlake.pipeline.addresses import holds_secret, is_secret, is_written_out
from parqlake.pipeline.expectations import Expectation
from parqlake.pipeline.maintain import Maintain, maintain
from parqlake.pipeline.pipeline import Pipeline, absolute
from parqlake.pipeline.reading import Source
from parqlake.pipeline.steps import BATCH, make_step
from parqlake.pipeline.windows import Cursor, cursor
from parqlake.wiring import connect

_TOP = ("pipeline", "spark", "steps")
_PIPELINE = ("name", "lake", "catalog", "storage_options", "samples")
_SPARK = ("master", "memory", "config")
_SOURCES = ("files", "new_files", "table", "changes", "jdbc")
_FILES = ("format", "schema", "options")
_OWN = ("source", "sources", "sql", "incremental", "expect", "maintain")
_PLAIN = (
    "target",
    "reads",
    "mode",
    "keys",
    "strategy",
    "effective",
    "where",
    "dedupe",
    "schema_mode",
    "partition_by",
    "properties",
)
_ACTIONS = ("warn", "drop", "quarantine", "fail")
_RULES = ("unique", "row_count", "fresh", "references")


def read_config(path: Path) -> Pipeline:
    """The pipeline that a TOML file describes; relative addresses count from the file's folder.

    Raises:
        InvalidOptionError: the file is no TOML, a key is not known, or a secret is not in the environment.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"{path} cannot be read as TOML: {error}") from error
    _known(content, _TOP, str(path))
    about = _table(content, "pipeline", str(path))
    _known(about, _PIPELINE, "[pipeline]")
    for needed in ("name", "lake"):
        if needed not in about:
            raise InvalidOptionError(f'{path}: [pipeline] lacks "{needed}"')
    base = path.resolve().parent
    lake = connect(
        absolute(_secret(about["lake"], "lake"), base),
        catalog=_secret(about["catalog"], "catalog") if "catalog" in about else None,
        storage_options=_secrets(about.get("storage_options", {}), "storage_options"),
    )
    pipeline = Pipeline(about["name"], lake=lake, spark=_session(content, path), samples=about.get("samples", True))
    for name, step in _table(content, "steps", str(path)).items():
        place = f"[steps.{name}]"
        if not isinstance(step, Mapping):
            raise InvalidOptionError(f"{path}: {place} is {step!r}, and not a table of options")
        _add(pipeline, name, step, place, base)
    return pipeline


def _add(pipeline: Pipeline, name: str, step: Mapping[str, Any], place: str, base: Path) -> None:
    _known(step, (*_PLAIN, *_OWN), place)
    if ("source" in step) == ("sources" in step):
        raise InvalidOptionError(f"{place} needs either source or sources")
    given = {BATCH: step["source"]} if "source" in step else dict(step["sources"])
    found = {key: _source(value, f"{place} source", base) for key, value in given.items()}
    sql = step.get("sql")
    if sql is None and BATCH not in found:
        raise InvalidOptionError(f"{place} has several sources; say by sql what is made of them")
    if "target" not in step:
        raise InvalidOptionError(f"{place} writes no table; give a target")
    options = {key: value for key, value in step.items() if key in _PLAIN}
    pipeline.add(
        make_step(
            _function(sql, tuple(found)),
            name=name,
            source=found,
            incremental=_incremental(step.get("incremental"), place),
            expect=[_expectation(rule, f"{place} expect") for rule in step.get("expect", ())],
            maintain=_maintain(step.get("maintain"), place),
            **options,
        )
    )


def _function(sql: str | None, names: tuple[str, ...]) -> Callable[..., Any]:
    """What a step does: its query over the sources, each as `{name}`; without one, the rows as they come."""
    import inspect

    def step(**given: Any) -> Any:
        if sql is None:
            return given[BATCH]
        return given["spark"].sql(sql, **{name: given[name] for name in names})

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in (*names, "spark")]
    step.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return step


def _source(given: Any, place: str, base: Path) -> Source:
    if not isinstance(given, Mapping):
        raise InvalidOptionError(f'{place}={given!r}: write for instance {{ new_files = "landing", format = "json" }}')
    kinds = [kind for kind in _SOURCES if kind in given]
    if len(kinds) != 1:
        raise InvalidOptionError(f"{place} must name one of {', '.join(_SOURCES)}; it names {len(kinds)}")
    (kind,) = kinds
    address = given[kind]
    options = _secrets(given.get("options", {}), f"{place}.options")
    if kind == "table":
        _known(given, ("table", "where"), place)
        return sources.table(address, where=given.get("where"))
    if kind == "changes":
        _known(given, ("changes", "keys"), place)
        return sources.changes(address, keys=given.get("keys", ()))
    if kind == "jdbc":
        _known(given, ("jdbc", "dbtable", "options"), place)
        return sources.jdbc(_secret(address, place), given.get("dbtable", ""), **options)
    plain = {key: given[key] for key in ("format", "schema") if key in given}
    if kind == "files":
        _known(given, ("files", *_FILES), place)
        paths = [address] if isinstance(address, str) else list(address)
        return sources.files([absolute(path, base) for path in paths], **plain, **options)
    _known(given, ("new_files", *_FILES, "pattern", "min_age", "max_files", "storage_options"), place)
    more = {key: given[key] for key in ("pattern", "min_age", "max_files") if key in given}
    storage = _secrets(given.get("storage_options", {}), f"{place}.storage_options")
    return sources.new_files(absolute(address, base), **plain, **more, storage_options=storage, **options)


def _expectation(given: Any, place: str) -> Expectation:
    if not isinstance(given, Mapping):
        raise InvalidOptionError(f'{place}={given!r}: write for instance {{ name = "positive", that = "amount >= 0" }}')
    _known(given, ("name", "that", *_ACTIONS, *_RULES), place)
    actions = [action for action in _ACTIONS if given.get(action)]
    if len(actions) > 1:
        raise InvalidOptionError(f"{place} has the actions {' and '.join(actions)}; choose one")
    action = actions[0] if actions else "fail"
    rules = [rule for rule in _RULES if rule in given]
    if rules:
        (rule,) = rules if len(rules) == 1 else (None,)
        if rule is None or "that" in given:
            raise InvalidOptionError(f"{place} holds more than one rule; write each by itself")
        value = given[rule]
        arguments = value if isinstance(value, list) else [value]
        made: Any = getattr(expectations, rule)(*arguments)
    else:
        made = expectations.expect(given.get("name", ""), given.get("that", ""))
    if action == "quarantine" and not rules:
        return made.quarantine(given["quarantine"])  # type: ignore[no-any-return]
    if not hasattr(made, action):
        raise InvalidOptionError(f"{place}: {made.name} is about many rows, so that it can only warn or fail")
    return getattr(made, action)()  # type: ignore[no-any-return]


def _incremental(given: Any, place: str) -> Cursor | None:
    if given is None:
        return None
    if isinstance(given, str):
        return cursor(given)
    _known(given, ("cursor", "lookback", "start"), f"{place} incremental")
    return cursor(given.get("cursor", ""), lookback=given.get("lookback", 0), start=given.get("start"))


def _maintain(given: Any, place: str) -> Maintain | None:
    if given is None:
        return None
    _known(given, ("compact", "cluster_by", "expire", "vacuum"), f"{place} maintain")
    return maintain(**given)


def _session(content: Mapping[str, Any], path: Path) -> Callable[[], Any] | None:
    if "spark" not in content:
        return None
    asked = _table(content, "spark", str(path))
    _known(asked, _SPARK, "[spark]")
    config = _secrets(asked.get("config", {}), "[spark.config]")

    def make() -> Any:
        from parqlake.spark.session import session

        return session(master=asked.get("master"), memory=asked.get("memory"), config=config)

    return make


def _table(content: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    found = content.get(name)
    if not isinstance(found, Mapping):
        raise InvalidOptionError(f"{place} has no [{name}]")
    return found


def _known(given: Any, known: tuple[str, ...], place: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidOptionError(f"{place} is {given!r}, and not a table of keys")
    for key in given:
        if key not in known:
            raise InvalidOptionError(f'{place} has no key "{key}";{suggestion(key, known)} keys: {", ".join(known)}')


def _secrets(given: Any, place: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidOptionError(f"{place} is {given!r}, and not a table of keys")
    for key, value in given.items():
        if isinstance(value, str) and is_secret(key) and is_written_out(value):
            raise InvalidOptionError(
                f'{place}.{key} is a secret that stands in the file; put it into the environment, and write "${{NAME}}"'
            )
    return {key: _secret(value, f"{place}.{key}") if isinstance(value, str) else value for key, value in given.items()}


def _secret(text: str, place: str) -> str:
    """The text with `${NAME}` from the environment; what is not there is told by name, never by value."""
    if holds_secret(VARIABLE.sub("", text)):
        raise InvalidOptionError(
            f"{place} is an address with a password or token that stands in the file; put it into the environment, and "
            'write "${NAME}"'
        )
    return expanded(text, place, os.environ)
