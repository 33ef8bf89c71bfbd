"""SQL text as words and signs: what is refused before a parser looks at it."""

from __future__ import annotations

from typing import Any

from parqlake.core.errors import InvalidPredicateError

MAX_TOKENS = 100_000
MAX_NESTING = 25
_OPENING = {"L_PAREN", "L_BRACKET", "L_BRACE"}
_CLOSING = {"R_PAREN", "R_BRACKET", "R_BRACE"}


def check_tokens(tokens: list[Any], text: str) -> None:
    """Refuses what the parser would pass over in silence, and nesting that would exhaust it."""
    depth = 0
    if not tokens:
        raise InvalidPredicateError("it is empty")
    if len(tokens) > MAX_TOKENS:
        raise too_long(f"of {len(tokens)} words and signs", MAX_TOKENS)
    for token in tokens:
        kind = token.token_type.name
        if token.comments:
            raise InvalidPredicateError("it holds a comment; leave comments out")
        if kind == "SEMICOLON":
            raise InvalidPredicateError("it holds a ';'; give one condition, not statements")
        if kind == "HEX_STRING" and text[token.start : token.start + 2].lower() == "0x":
            raise InvalidPredicateError("hexadecimal numbers are not understood; write the number in decimal")
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth > MAX_NESTING:
            raise InvalidPredicateError(f"it is nested more than {MAX_NESTING} deep; write it flatter")


def too_long(what: str, limit: int) -> InvalidPredicateError:
    """The error for text of which there is too much."""
    return InvalidPredicateError(
        f"it is {what}, and at most {limit} are possible; give a pyarrow expression with isin(…) for very long lists"
    )
