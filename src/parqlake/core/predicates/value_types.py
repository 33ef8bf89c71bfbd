"""Types of computed values: the same on every engine, because operands are brought to these types first.

Integers are computed as int64, and the engine raises an error on overflow and for a uint64 beyond int64; anything with
a float is computed as double; decimals exactly.
`/` always gives a double and `%` takes integers, with the sign of the left side; both give NULL for a divisor of zero.
"""

from __future__ import annotations

import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.moments import UNIT_NANOS
from parqlake.core.predicates.tree import Arithmetic, Case, Column, Expr, Function, Literal

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MAX_DIGITS_128 = 38
_MAX_DIGITS = 76


def type_of(expr: Expr) -> pa.DataType:
    """The type of a bound expression."""
    match expr:
        case Column(type=type_):
            assert type_ is not None, "only bound expressions have a type"
            return type_
        case Literal(scalar=scalar):
            assert scalar is not None, "only bound expressions have a type"
            return scalar.type
        case Arithmetic(op=op, left=left, right=right):
            return arithmetic_type(op, type_of(left), type_of(right))
        case Function(name=name, args=args):
            return function_type(name, [type_of(arg) for arg in args])
        case Case(whens=whens, otherwise=otherwise):
            return case_type([*(type_of(value) for _, value in whens), type_of(otherwise)])


def is_number(type_: pa.DataType) -> bool:
    """Whether one can calculate with values of the type."""
    return bool(pa.types.is_integer(type_) or pa.types.is_decimal(type_) or is_float(type_))


def is_float(type_: pa.DataType) -> bool:
    """Whether the type is float32 or float64, the two that have NaN and that tables hold."""
    return bool(pa.types.is_float32(type_) or pa.types.is_float64(type_))


def is_text(type_: pa.DataType) -> bool:
    """Whether the type is a string."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def is_bytes(type_: pa.DataType) -> bool:
    """Whether the type is binary."""
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def operand_types(op: str, left: pa.DataType, right: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    """The types that the operands are brought to before the calculation."""
    if op == "/" or is_float(left) or is_float(right):
        return pa.float64(), pa.float64()
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        left, right = as_decimal(left), as_decimal(right)
        if _digits(op, left, right)[0] > _MAX_DIGITS_128:  # Arrow computes wide decimals only from wide ones
            return pa.decimal256(left.precision, left.scale), pa.decimal256(right.precision, right.scale)
        return left, right
    return pa.int64(), pa.int64()


def arithmetic_type(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of `left op right`.

    Raises:
        InvalidPredicateError: one side is no number, or the result has too many digits.
    """
    for side in (left, right):
        if not is_number(side):
            raise InvalidPredicateError(f"{op} calculates with numbers, not with {side}")
    if op == "%" and not (pa.types.is_integer(left) and pa.types.is_integer(right)):
        raise InvalidPredicateError(f"% takes integers, not {left} and {right}")
    operands = operand_types(op, left, right)
    if not pa.types.is_decimal(operands[0]):
        return operands[0]
    precision, scale = _digits(op, *operands)
    if precision > _MAX_DIGITS:
        raise InvalidPredicateError(
            f"{left} {op} {right} may have {precision} digits, more than {_MAX_DIGITS}; use a float constant"
        )
    return decimal_type(precision, scale)


def function_type(name: str, args: list[pa.DataType]) -> pa.DataType:
    """The type of a function's result.

    Raises:
        InvalidPredicateError: the function takes other arguments.
    """
    match name, args:
        case "lower" | "upper", [text] if is_text(text):
            return text
        case "length", [text] if is_text(text):
            return pa.int64()
        case "abs", [number] if is_number(number):
            return pa.int64() if pa.types.is_integer(number) else pa.float64() if is_float(number) else number
        case "starts_with", [text, prefix] if is_text(text) and is_text(prefix):
            return pa.bool_()
        case "concat", [first, *others] if is_text(first) and all(map(is_text, others)):
            return first
        case "coalesce", [first, *others]:
            for other in others:
                first = _required_common_type(first, other)
            return first
    shown = ", ".join(str(arg) for arg in args)
    raise InvalidPredicateError(
        f"{name}({shown}) is not possible; there are lower, upper and length of a string, abs of a number, "
        "starts_with and || of strings, and coalesce"
    )


def case_type(values: list[pa.DataType]) -> pa.DataType:
    """The type of a CASE, whose branches have these; NULL goes with all.

    Raises:
        InvalidPredicateError: they do not go together.
    """
    known = [type_ for type_ in values if not pa.types.is_null(type_)]
    if not known:
        return pa.null()
    found = known[0]
    for type_ in known[1:]:
        found = _required_common_type(found, type_, "CASE")
    return found


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both can be compared; None if they cannot.

    Of two units of time it is the finer; engines raise an error for a value beyond its range (nanoseconds end in 2262).
    """
    t = pa.types
    if left == right:
        return left
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if (is_text(left) and is_text(right)) or (is_bytes(left) and is_bytes(right)):
        return left if t.is_large_string(left) or t.is_large_binary(left) else right
    if t.is_date(left) and t.is_timestamp(right):
        return right if right.tz is None else None
    if t.is_timestamp(left) and t.is_date(right):
        return left if left.tz is None else None
    if t.is_timestamp(left) and t.is_timestamp(right):
        unit = min(left.unit, right.unit, key=UNIT_NANOS.__getitem__)
        return pa.timestamp(unit, left.tz) if (left.tz is None) == (right.tz is None) else None
    if t.is_time(left) and t.is_time(right):
        return min(left, right, key=lambda type_: UNIT_NANOS[type_.unit])
    return None


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer or decimal type."""
    if pa.types.is_decimal(type_):
        return type_
    return pa.decimal128(20 if pa.types.is_uint64(type_) else _INTEGER_DIGITS[type_.bit_width], 0)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """A decimal type of that many digits, 128 bits wide where they suffice."""
    wide = precision > _MAX_DIGITS_128
    return pa.decimal256(precision, scale) if wide else pa.decimal128(precision, scale)


def _required_common_type(left: pa.DataType, right: pa.DataType, what: str = "coalesce") -> pa.DataType:
    found = common_type(left, right)
    if found is None:
        raise InvalidPredicateError(f"{what} takes values of one kind, not {left} and {right}")
    return found


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if is_float(left) or is_float(right):
        return pa.float64()
    both_integers = pa.types.is_integer(left) and pa.types.is_integer(right)
    if both_integers and not (pa.types.is_uint64(left) or pa.types.is_uint64(right)):
        return pa.int64()
    if both_integers and pa.types.is_unsigned_integer(left) and pa.types.is_unsigned_integer(right):
        return pa.uint64()
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return decimal_type(precision, scale) if precision <= _MAX_DIGITS else None


def _digits(op: str, left: pa.DataType, right: pa.DataType) -> tuple[int, int]:
    """Precision and scale of a decimal result, by Arrow's rules."""
    if op == "*":
        return left.precision + right.precision + 1, left.scale + right.scale
    scale = max(left.scale, right.scale)
    return max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale
