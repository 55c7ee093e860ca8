"""Operators and functions of expressions, each bounded before it makes a value much larger than its operands."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fadiff_mapper.base.errors import FadiffError

# Plain safety limits, generous for specifications; nothing was measured to choose them.
MAX_BITS = 4_096
"""Bits of a whole-numbered result."""
MAX_SIZE = 100_000
"""Characters or elements of a result, nested ones counted."""


class ExpressionError(FadiffError):
    """An expression that cannot be computed. The message is the reason alone: the caller knows the place."""


def checked_size(value: Any) -> Any:
    """The same value, refused where it has more than `MAX_SIZE` characters and elements or holds a mapping."""
    left, waiting = MAX_SIZE, [value]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, bool | int | float | str | list):
            raise ExpressionError("the result is neither a number, string, boolean nor list")
        left -= len(item) if isinstance(item, str) else 1
        if isinstance(item, list):
            left -= len(item)
            waiting += item if left >= 0 else []
        if left < 0:
            raise ExpressionError(f"the result is too long; accepted: at most {MAX_SIZE} elements")
        if isinstance(item, int):
            _checked_bits(item.bit_length())
    return value


def _checked_bits(bits: int) -> None:
    """Refuses a whole number of so many bits, before it is computed where the caller can tell."""
    if bits > MAX_BITS:
        raise ExpressionError(f"the result is too large; accepted: whole numbers of at most {MAX_BITS} bits")


def _real(value: Any) -> Any:
    """The same value; roots of negative numbers are complex in Python, and refused here."""
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")
    return value


def _added(left: Any, right: Any) -> Any:
    if isinstance(left, str | list) and isinstance(right, str | list) and len(left) + len(right) > MAX_SIZE:
        raise ExpressionError(f"the result is too long; accepted: at most {MAX_SIZE} elements")
    return left + right


def _multiplied(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _checked_bits(left.bit_length() + right.bit_length())
    for repeated, count in ((left, right), (right, left)):
        if isinstance(repeated, str) and isinstance(count, int) and len(repeated) * count > MAX_SIZE:
            raise ExpressionError(f"the result is too long; accepted: at most {MAX_SIZE} characters")
        if isinstance(repeated, list | tuple) and isinstance(count, int):
            if any(isinstance(item, list | tuple) for item in repeated):  # each such product would multiply the size
                raise ExpressionError("a list of lists cannot be multiplied")
            if len(repeated) * count > MAX_SIZE // 10:
                raise ExpressionError(f"the result is too long; accepted: at most {MAX_SIZE // 10} elements")
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        _checked_bits(base.bit_length() * abs(exponent))
    return _real(base ** exponent)


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        raise ExpressionError("strings are not formatted here")
    return left % right


def _shifted(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _checked_bits(left.bit_length() + right)
    return left << right


def _factorial(value: Any) -> int:
    """n!, which has at most 8 n bits up to n = 691; more than 512 are refused by that bound."""
    _checked_bits(value * 8 if value < MAX_BITS else value)
    return math.factorial(value)


def _binomial(function: Callable[..., int]) -> Callable[..., int]:
    """`math.comb` or `math.perm`, for arguments whose result stays within the bounds."""
    def bounded(n: Any, k: Any) -> int:
        _checked_bits(int(n).bit_length() * abs(int(k)))
        return function(n, k)
    return bounded


def _product(values: Sequence[Any]) -> Any:
    result: Any = 1
    for value in values:
        result = _multiplied(result, value)
    return result


def _total(values: Sequence[Any], start: Any = 0) -> Any:
    for value in values:
        start = _added(start, value)
    return start


def _range(*bounds: int) -> range:
    if len(range(*bounds)) > MAX_SIZE // 10:
        raise ExpressionError(f"the range is too long; accepted: at most {MAX_SIZE // 10} numbers")
    return range(*bounds)


def rounded(value: Any, digits: int | None = None) -> Any:
    """Python's `round`, refused for more than 400 digits, as its work grows with the number of digits asked for.

    400 digits are beyond the exponents of doubles (308).
    """
    if digits is not None and abs(digits) > 400:
        raise ExpressionError(f"cannot round to {digits} digits; accepted: at most 400")
    return round(value, digits)


_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": _added, "-": operator.sub, "*": _multiplied, "/": operator.truediv, "//": operator.floordiv,
    "%": _remainder, "**": _power, "<<": _shifted, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor,
}


def binary(symbol: str, left: Any, right: Any) -> Any:
    """Applies a binary operator with the bounds of this file.

    Args:
        symbol: Python's spelling, such as `+`, `**` or `<<`.
        left: Left operand.
        right: Right operand.

    Raises:
        ExpressionError: A bound is exceeded.
        ArithmeticError: As Python's own operators, which also raise TypeError and ValueError.
    """
    return _BINARY[symbol](left, right)


CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau, "inf": math.inf, "nan": math.nan}

_PLAIN_MATH = (
    math.acos, math.acosh, math.asin, math.asinh, math.atan, math.atan2, math.atanh, math.ceil, math.copysign,
    math.cos, math.cosh, math.degrees, math.dist, math.erf, math.erfc, math.exp, math.expm1, math.fabs, math.floor,
    math.fmod, math.frexp, math.fsum, math.gamma, math.gcd, math.hypot, math.isclose, math.isfinite, math.isinf,
    math.isnan, math.isqrt, math.ldexp, math.lgamma, math.log, math.log10, math.log1p, math.log2, math.modf,
    math.radians, math.remainder, math.sin, math.sinh, math.sqrt, math.tan, math.tanh, math.trunc,
)

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{function.__name__: function for function in _PLAIN_MATH},
    "abs": abs, "bool": bool, "float": float, "int": int, "len": len, "list": list, "max": max, "min": min,
    "str": str, "tuple": list, "comb": _binomial(math.comb), "factorial": _factorial, "perm": _binomial(math.perm),
    "pow": _power, "prod": _product, "range": _range, "round": rounded, "sum": _total,
}
