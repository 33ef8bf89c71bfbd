"""Queries are read before anything runs them: what they do, and which tables they name.

Only what reads is let through, by a list of what is allowed. The text itself is handed to the engine as it was written,
apart from names such as `sales.orders@7`, which are put in quotes, and question marks, which are numbered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import InvalidNameError, InvalidQueryError
from parqlake.core.names import TableName, check_tag_name, parse_table_name
from parqlake.core.predicates.sql_text import identifier

MAX_LENGTH = 1_000_000
_STARTS = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "L_PAREN"}
_TABLE_FUNCTIONS = {"unnest", "explode", "generateseries", "range", "generate_series"}
_SHOWN = 200


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A table that a query names."""

    namespace: str
    """As the engine has to know it, like the name."""
    name: str
    table: TableName
    version: int | str | None
    """What stands after the @, if anything does."""
    nodes: tuple[Any, ...]
    """Where in the syntax tree."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query that only reads."""

    text: str
    """For the engine."""
    syntax: Any
    references: tuple[Reference, ...]
    parameters: frozenset[str]
    """What stands after the $ of its placeholders: names, or numbers from 1 on."""


def read_query(text: Any, *, folds_case: bool = False) -> Query:
    """Reads a query, and refuses all that is no query, or would do more than read tables.

    Args:
        text: one statement, in DuckDB's SQL.
        folds_case: whether the engine takes names without quotes for lower case.

    Raises:
        InvalidQueryError: it cannot be read, is not one SELECT, or reads something else than tables of the lake.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidQueryError(f"the query is {text!r}; give the text of a SELECT")
    if len(text) > MAX_LENGTH:
        raise InvalidQueryError(f"the query is {len(text)} characters long; at most {MAX_LENGTH} are possible")
    plain, syntax = _parsed(text)
    _check_reads(syntax)
    found: dict[tuple[str, str], list[Any]] = {}
    for node in _tables(syntax):
        found.setdefault(_written(node, folds_case=folds_case), []).append(node)
    references = tuple(_reference(*key, tuple(nodes)) for key, nodes in found.items())
    return Query(plain, syntax, references, _parameters(syntax))


def _tokens(text: str) -> list[Any]:
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.errors import SqlglotError

    try:
        return list(DuckDB().tokenize(text))
    except SqlglotError as error:
        raise InvalidQueryError(f"cannot read {_shown(text)}: a quote or comment may be left open ({error})") from None


def _parsed(text: str) -> tuple[str, Any]:
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.errors import SqlglotError

    tokens = _tokens(text)
    start = tokens[0].token_type.name if tokens else ""
    if start not in _STARTS:
        raise InvalidQueryError(
            f"cannot run {_shown(text)}: only queries are run here, which begin with SELECT, WITH, FROM or VALUES; "
            "write by table.append(), merge(), update() or delete()"
        )
    plain = _plain(text, tokens)
    try:
        trees = [tree for tree in DuckDB().parse(plain) if tree is not None]
    except SqlglotError as error:
        first: dict[str, Any] = next(iter(getattr(error, "errors", ())), {})
        where = f" at {first['highlight']!r} (line {first['line']}, column {first['col']})" if first else ""
        raise InvalidQueryError(f"cannot read {_shown(text)}: it is not understood{where}") from None
    except RecursionError:
        raise InvalidQueryError(f"cannot read {_shown(text)}: it is nested too deeply") from None
    if len(trees) != 1:
        raise InvalidQueryError(f"{_shown(text)} holds {len(trees)} statements; give one at a time")
    return plain, trees[0]


def _plain(text: str, tokens: list[Any]) -> str:
    """The text with `sales."orders@7"` for `sales.orders@7` and `$1`, `$2` for question marks: all engines read it."""
    changes = list(_quoted_versions(text, tokens))
    marks = [token for token in tokens if token.token_type.name == "PLACEHOLDER"]
    if marks and any(text[token.start] == "$" for token in tokens):
        raise InvalidQueryError(f"{_shown(text)} has both ? and $ for parameters; use one of them")
    changes += [(mark.start, mark.end + 1, f"${number}") for number, mark in enumerate(marks, start=1)]
    pieces, end = [], 0
    for start, stop, new in sorted(changes):
        pieces += [text[end:start], new]
        end = stop
    return "".join([*pieces, text[end:]])


def _quoted_versions(text: str, tokens: list[Any]) -> Iterator[tuple[int, int, str]]:
    for dot, name, at, version in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        joined = name.end + 1 == at.start and at.end + 1 == version.start
        if dot.token_type.name == "DOT" and text[at.start : at.end + 1] == "@" and joined:
            yield name.start, version.end + 1, identifier(f"{name.text}@{version.text}")


def _check_reads(syntax: Any) -> None:
    from sqlglot import exp

    if not isinstance(syntax, exp.Query | exp.Values):
        raise InvalidQueryError(f"{_shown(_sql(syntax))} is no query; write it as a SELECT")
    forbidden = (
        exp.DML,
        exp.DDL,
        exp.Command,
        exp.Into,
        exp.Copy,
        exp.Attach,
        exp.Detach,
        exp.Pragma,
        exp.Set,
        exp.Use,
    )
    for node in syntax.walk():
        if isinstance(node, forbidden) and not isinstance(node, exp.Query):
            raise InvalidQueryError(
                f"{_shown(_sql(node))} does more than read, and only reading is possible here; "
                "write by table.append(), merge(), update() or delete()"
            )


def _parameters(syntax: Any) -> frozenset[str]:
    from sqlglot import exp

    return frozenset(str(mark.this) for mark in syntax.find_all(exp.Placeholder))


def _tables(syntax: Any) -> Iterator[Any]:
    """The tables of the lake; functions that are allowed and names that the query itself defines are left out."""
    from sqlglot import exp

    for node in syntax.find_all(exp.Lateral):
        if not isinstance(node.this, exp.Query | exp.Subquery):
            _check_function(node.this)
    defined = {cte.alias.casefold() for cte in syntax.find_all(exp.CTE)}
    for node in syntax.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            _check_function(node.this)
        elif node.args.get("when") or node.args.get("version"):
            raise InvalidQueryError(
                f"{_shown(_sql(node))}: write {node.db}.{node.name}@7 for a version, or give lake.sql(…, as_of=…)"
            )
        elif node.db or node.name.casefold() not in defined:
            yield node


def _check_function(function: Any) -> None:
    """Raises for functions in place of tables, but for those that only make rows of constants and columns."""
    from sqlglot import exp

    name = function.name if isinstance(function, exp.Anonymous) else function.key
    if str(name).casefold() not in _TABLE_FUNCTIONS:
        raise InvalidQueryError(
            f"{_shown(_sql(function))} reads something else than tables of the lake, which is not possible here; write "
            "the data to a table first, or use lake.attach(duckdb.connect())"
        )


def _written(node: Any, *, folds_case: bool) -> tuple[str, str]:
    """The namespace and the name, as the engine reads them."""
    if node.catalog or not node.db:
        raise InvalidQueryError(
            f"{_shown(_sql(node))} is no table of the lake: its tables are written namespace.name, such as sales.orders"
        )
    names = [
        part.name.lower() if folds_case and not part.args.get("quoted") else part.name
        for part in (node.args["db"], node.this)
    ]
    return names[0], names[1]


def _reference(namespace: str, name: str, nodes: tuple[Any, ...]) -> Reference:
    plain, _, version = name.partition("@")
    try:
        table = parse_table_name(f"{namespace}.{plain}")
        if "@" in name and not version.isdecimal():
            check_tag_name(version)
    except InvalidNameError as error:
        raise InvalidQueryError(f'"{namespace}.{name}" is no table of the lake: {error}') from None
    at = None if "@" not in name else int(version) if version.isdecimal() else version
    return Reference(namespace, name, table, at, nodes)


def _sql(syntax: Any) -> str:
    try:
        return str(syntax.sql(dialect="duckdb"))
    except Exception:  # the message is about the query; that one part cannot be printed must not hide it
        return str(syntax.key)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
