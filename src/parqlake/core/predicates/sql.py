"""SQL text becomes a predicate tree. The only file that knows sqlglot, which is loaded when the first text comes.

Text is read as DuckDB reads it. What is not in the small language is refused by name: the syntax tree is walked with
a list of what is allowed, and every argument of every node is accounted for, so that nothing is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates import builders
from parqlake.core.predicates.builders import Node, as_expression, as_predicate, as_value
from parqlake.core.predicates.sql_literals import converted, number
from parqlake.core.predicates.sql_tokens import check_tokens, too_long
from parqlake.core.predicates.tree import (
    Arithmetic,
    Case,
    Column,
    CompareOp,
    Expr,
    Function,
    IsNaN,
    Literal,
    Not,
    Predicate,
)

MAX_LENGTH = 500_000
POSSIBLE = (
    "possible are: and or not, = != < <= > >=, between, in (…), is [not] null / true / false, like, ilike, "
    "+ - * / %, lower upper length abs coalesce starts_with isnan, and constants such as 5, 1.50, 'text', true, "
    "date '2026-01-31', timestamp '2026-01-31 12:00:00'"
)
_SHOWN = 120
_T = TypeVar("_T")
_COMPARISONS = {
    "eq": CompareOp.EQ,
    "neq": CompareOp.NE,
    "lt": CompareOp.LT,
    "lte": CompareOp.LE,
    "gt": CompareOp.GT,
    "gte": CompareOp.GE,
}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_FUNCTIONS = {"lower", "upper", "length", "abs"}
_ONLY_IN_VALUES = {"case", "dpipe"}


def parse_sql(text: str) -> Predicate:
    """Reads a condition, as it would stand after WHERE in DuckDB.

    Example:
        >>> parse_sql("amount > 10 and region in ('eu', 'us')")   # doctest: +SKIP

    Raises:
        InvalidPredicateError: the text is no condition, or uses something beyond the small language that every
            engine computes alike: subqueries, aggregates, window functions, placeholders, other functions.
    """
    return _explained(text, "condition", lambda: as_predicate(_node(_plain(_syntax(text)))))


def parse_expression(text: str) -> Expr:
    """Reads a value computed from columns, such as `price * 1.1`.

    Raises:
        InvalidPredicateError: see `parse_sql`.
    """
    return _explained(text, "value", lambda: as_expression(_node(_plain(_syntax(text)))))


def parse_value(text: str) -> Expr:
    """Reads what a column is set to: all that `parse_expression` reads, `||`, CASE, and conditions.

    Raises:
        InvalidPredicateError: see `parse_sql`.
    """
    return _explained(text, "value", lambda: as_value(_node(_syntax(text))))


def _explained(text: str, what: str, read: Callable[[], _T]) -> _T:
    shown = repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
    try:
        return read()
    except InvalidPredicateError as error:
        raise InvalidPredicateError(f"cannot read {shown} as a {what}: {error}; {POSSIBLE}") from None
    except RecursionError:
        raise InvalidPredicateError(
            f"cannot read {shown} as a {what}: it is nested too deeply; write it flatter, for instance with IN"
        ) from None


@cache
def _dialect() -> Any:
    """DuckDB's dialect with `x'FF'` for bytes."""
    from sqlglot.dialects.duckdb import DuckDB

    class ParqlakeWhere(DuckDB):
        class Tokenizer(DuckDB.Tokenizer):
            HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012 sqlglot reads it from the class

    return ParqlakeWhere()


def _syntax(text: str) -> Any:
    """The syntax tree of one expression."""
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    if len(text) > MAX_LENGTH:
        raise too_long(f"{len(text)} characters long", MAX_LENGTH)
    try:
        tokens = _dialect().tokenize(text)
        check_tokens(tokens, text)
        trees = _dialect().parser().parse_into(exp.Condition, tokens, text)
    except InvalidPredicateError:
        raise
    except ParseError as error:
        raise InvalidPredicateError(_parse_problem(error)) from None
    except SqlglotError as error:
        raise InvalidPredicateError(f"a quote or comment may be left open ({error})") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # a parser that stumbles has not understood
        raise InvalidPredicateError("it is not SQL") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidPredicateError("it is not SQL")
    return trees[0]


def _plain(syntax: Any) -> Any:
    """The syntax tree without what only stands in values: predicates are to be pruned by."""
    for part in syntax.walk():
        if part.key in _ONLY_IN_VALUES:
            raise _not_understood(part)
    return syntax


def _parse_problem(error: Any) -> str:
    first = error.errors[0] if error.errors else {}
    highlight = first.get("highlight")
    if not highlight:
        return "it is not SQL"
    return f"it is not understood at {highlight!r} (line {first.get('line')}, column {first.get('col')})"


def _node(syntax: Any) -> Node:
    if syntax is None:
        raise InvalidPredicateError("a part of it is missing")
    key = syntax.key
    if key in ("and", "or"):
        return _junction(syntax)
    if key in _COMPARISONS:
        _only(syntax, "this", "expression")
        return builders.comparison(_COMPARISONS[key], _node(syntax.this), _node(syntax.expression))
    if key in _ARITHMETIC:
        _only(syntax, "this", "expression", "typed", "safe")
        return Arithmetic(_ARITHMETIC[key], _value(syntax.this), _value(syntax.expression))
    if key in _FUNCTIONS:
        _only(syntax, "this")
        return Function(key, (_value(syntax.this),))
    reader = _READERS.get(key)
    if reader is None:
        raise _not_understood(syntax)
    return reader(syntax)


def _value(syntax: Any) -> Expr:
    return as_expression(_node(syntax))


def _junction(syntax: Any) -> Predicate:
    """AND and OR; a loop, since a thousand conditions lean to the left a thousand deep."""
    key = syntax.key
    items: list[Predicate] = []
    while syntax.key == key:
        _only(syntax, "this", "expression")
        items.append(as_predicate(_node(syntax.expression)))
        syntax = syntax.this
    items.append(as_predicate(_node(syntax)))
    items.reverse()
    return builders.all_of(items) if key == "and" else builders.any_of(items)


def _paren(syntax: Any) -> Node:
    _only(syntax, "this")
    return _node(syntax.this)


def _not(syntax: Any) -> Node:
    _only(syntax, "this")
    return Not(as_predicate(_node(syntax.this)))


def _negative(syntax: Any) -> Node:
    _only(syntax, "this")
    inner = _value(syntax.this)
    if isinstance(inner, Literal) and _is_number(inner.value):
        return Literal(-inner.value)
    return Arithmetic("-", Literal(0), inner)


def _column(syntax: Any) -> Node:
    path: list[str] = []
    while syntax.key == "dot":
        _only(syntax, "this", "expression")
        path.append(_name(syntax.expression))
        syntax = syntax.this
    if syntax.key != "column":
        raise _not_understood(syntax)
    _only(syntax, "this", "table", "db", "catalog")
    parts = [syntax.args.get(part) for part in ("catalog", "db", "table", "this")]
    return Column((*(_name(part) for part in parts if part is not None), *reversed(path)))


def _name(syntax: Any) -> str:
    if syntax.key != "identifier":
        raise _not_understood(syntax)
    return str(syntax.this)


def _literal(syntax: Any) -> Node:
    _only(syntax, "this", "is_string")
    return Literal(syntax.this if syntax.args.get("is_string") else number(syntax.this))


def _boolean(syntax: Any) -> Node:
    return Literal(bool(syntax.this))


def _null(_: Any) -> Node:
    return Literal(None)


def _hex_string(syntax: Any) -> Node:
    _only(syntax, "this")
    try:
        return Literal(bytes.fromhex(syntax.this))
    except ValueError:
        raise InvalidPredicateError(f"x'{syntax.this}' is not an even number of hexadecimal digits") from None


def _cast(syntax: Any) -> Node:
    _only(syntax, "this", "to")
    inner = _node(syntax.this)
    to = syntax.args["to"]
    if not isinstance(inner, Literal) or to.args.get("nested"):
        raise InvalidPredicateError(f"{_text(syntax)} converts a column; only constants can be converted")
    bounds = [str(bound.this.this) for bound in to.expressions if bound.key == "datatypeparam"]
    scale = int(bounds[1]) if len(bounds) == 2 and bounds[1].isdecimal() else None
    return Literal(converted(inner.value, getattr(to.this, "name", str(to.this)), scale=scale))


def _between(syntax: Any) -> Node:
    _only(syntax, "this", "low", "high")
    return builders.between(_node(syntax.this), _node(syntax.args["low"]), _node(syntax.args["high"]))


def _in(syntax: Any) -> Node:
    _only(syntax, "this", "expressions")
    return builders.membership(_node(syntax.this), (_node(item) for item in syntax.expressions))


def _is(syntax: Any) -> Node:
    _only(syntax, "this", "expression")
    subject, wanted = _node(syntax.this), syntax.expression
    if wanted.key == "null":
        return builders.is_null(subject)
    if wanted.key == "boolean":
        return builders.is_truth(subject, value=bool(wanted.this))
    raise _not_understood(syntax)


def _like(syntax: Any) -> Node:
    return _like_with(syntax, None)


def _escape(syntax: Any) -> Node:
    _only(syntax, "this", "expression")
    escape = _value(syntax.expression)
    if syntax.this.key not in ("like", "ilike") or not isinstance(escape, Literal) or len(str(escape.value)) != 1:
        raise _not_understood(syntax)
    return _like_with(syntax.this, str(escape.value))


def _like_with(syntax: Any, escape: str | None) -> Node:
    _only(syntax, "this", "expression", "negate")
    pattern = _value(syntax.expression)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise InvalidPredicateError(f"the pattern in {_text(syntax)} is not a string constant")
    found = builders.like(_node(syntax.this), pattern.value, escape=escape, ignore_case=syntax.key == "ilike")
    return Not(found) if syntax.args.get("negate") else found


def _coalesce(syntax: Any) -> Node:
    _only(syntax, "this", "expressions", "is_nvl", "is_null")
    return Function("coalesce", tuple(_value(arg) for arg in (syntax.this, *syntax.expressions)))


def _concat(syntax: Any) -> Node:
    parts: list[Expr] = []
    while syntax.key == "dpipe":
        _only(syntax, "this", "expression", "safe")
        parts.append(_value(syntax.expression))
        syntax = syntax.this
    return Function("concat", (_value(syntax), *reversed(parts)))


def _case(syntax: Any) -> Node:
    """Both spellings: conditions, or values that the subject is compared with."""
    _only(syntax, "this", "ifs", "default")
    subject, default = syntax.args.get("this"), syntax.args.get("default")
    whens = []
    for branch in syntax.args["ifs"]:
        _only(branch, "this", "true")
        when = _node(branch.this)
        if subject is not None:
            when = builders.comparison(CompareOp.EQ, _node(subject), when)
        whens.append((as_predicate(when), _value(branch.args["true"])))
    return Case(tuple(whens), Literal(None) if default is None else _value(default))


def _starts_with(syntax: Any) -> Node:
    _only(syntax, "this", "expression")
    return builders.starts_with(_node(syntax.this), _node(syntax.expression))


def _is_nan(syntax: Any) -> Node:
    _only(syntax, "this")
    return IsNaN(_value(syntax.this))


_READERS: dict[str, Callable[[Any], Node]] = {
    "paren": _paren,
    "not": _not,
    "neg": _negative,
    "column": _column,
    "dot": _column,
    "literal": _literal,
    "boolean": _boolean,
    "null": _null,
    "hexstring": _hex_string,
    "cast": _cast,
    "between": _between,
    "in": _in,
    "is": _is,
    "like": _like,
    "ilike": _like,
    "escape": _escape,
    "coalesce": _coalesce,
    "dpipe": _concat,
    "case": _case,
    "startswith": _starts_with,
    "isnan": _is_nan,
}


def _only(syntax: Any, *known: str) -> None:
    """Makes sure that the node says nothing beyond the arguments that are read."""
    for name, value in syntax.args.items():
        if name not in known and value not in (None, False, []):
            raise _not_understood(syntax)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str | bytes) and hasattr(value, "__neg__")


def _text(syntax: Any) -> str:
    try:
        text = str(syntax.sql(dialect="duckdb"))
    except Exception:  # the message is about the text; that one part cannot be printed must not hide it
        text = str(syntax.key)
    return text if len(text) <= 60 else text[:59] + "…"


def _not_understood(syntax: Any) -> InvalidPredicateError:
    return InvalidPredicateError(f"{_text(syntax)} ({syntax.key}) is not understood")
