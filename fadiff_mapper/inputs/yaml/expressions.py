"""Arithmetic in specifications, such as `ceil(log2(depth)) if depth >= 1 else 1`, without Python's `eval`.

Timeloop's Python front end evaluates such text with `eval`; here it is parsed into Python's syntax tree, of which
only the kinds of node listed in `_value` are computed, with bounded operators (`bounded_arithmetic`), so that an
expression of at most `MAX_TEXT` characters ends quickly or is refused.

As in the v0.4 front end, the text of variables and attributes is an expression unless it was quoted in the file
(`resolve`).
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed, nearest

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


# Plain safety limits, generous for specifications; nothing was measured to choose them.
MAX_TEXT = 1_000
"""Characters in one expression."""
MAX_DEPTH = 50
"""Levels of nesting in one expression, far below Python's limit on recursion."""


class Literal(str):
    """A string that was quoted in its file: equal to the plain string, but never an expression."""

    __slots__ = ()


class Expression(str):
    """A string that is to be written without quotes: equal to the plain string, and an expression where one may be."""

    __slots__ = ()


def evaluate(text: str, names: Mapping[str, object]) -> Any:
    """Computes an expression.

    Args:
        text: The expression, at most `MAX_TEXT` characters.
        names: Values by name. Mappings among them are read by attribute or index, as in
            `len(spec.problem.instance)`; attributes of Python objects are out of reach.

    Returns:
        A number, string, boolean or list.

    Raises:
        ExpressionError: The text is no expression, cannot be computed, or exceeds a limit; nothing else is raised.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters; accepted: at most {MAX_TEXT}")
    try:
        result = _value(syntax_tree(text), names, 0)
        return checked_size(list(result) if isinstance(result, tuple | range) else result)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f'cannot compute "{_shown(text)}": {error or type(error).__name__}') from None


def resolve(value: Any, names: Mapping[str, object]) -> Any:
    """The value of a variable or attribute as the v0.4 front end understands it.

    Args:
        value: As read from the file. Only unquoted text is changed: a whole number or boolean is converted, any
            other text is evaluated; text that results is as if it had been quoted.
        names: Values by name, see `evaluate`.

    Raises:
        ExpressionError: The text is no expression over `names`; the front end asks for quotes there.
    """
    if not isinstance(value, str) or isinstance(value, Literal):
        return value
    simple = _simple_value(value)
    result = evaluate(value, names) if simple is None else simple
    return Literal(result) if isinstance(result, str) else result


def syntax_tree(text: str) -> ast.expr:
    """Parses an expression into Python's syntax tree and computes nothing. Raises ExpressionError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f'"{_shown(text)}" is not an expression; a string needs quotes') from None


def _shown(text: str) -> str:
    """The text as it fits into a message of one line."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:77] + "..."


def _simple_value(text: str) -> Any:
    """The boolean or integer that the whole text spells, or None."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return None


def _value(node: ast.expr, names: Mapping[str, object], depth: int) -> Any:
    """Computes one node; `depth` levels of nesting surround it."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested too deeply; accepted: at most {MAX_DEPTH} levels")

    def inner(part: ast.expr) -> Any:
        return _value(part, names, depth + 1)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return _named(name, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SYMBOLS:
            return binary(_SYMBOLS[type(op)], inner(left), inner(right))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](inner(operand))
        case ast.BoolOp(op=op, values=values):
            return _first_deciding(isinstance(op, ast.Or), values, inner)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            return _comparison(inner(left), ops, [inner(right) for right in rights])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return inner(body) if inner(test) else inner(orelse)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [inner(item) for item in items]
        case ast.Attribute(value=owner, attr=key):
            return _entry(inner(owner), key)
        case ast.Subscript(value=owner, slice=ast.expr() as index) if not isinstance(index, ast.Slice):
            return _entry(inner(owner), inner(index))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _called(name, [inner(argument) for argument in arguments])
    raise ExpressionError(f'"{_shown(ast.unparse(node))}" is not available in expressions')


def _named(name: str, names: Mapping[str, object]) -> Any:
    """The value of a name; the caller's names come before the constants of mathematics."""
    if name in names:
        return names[name]
    if name in CONSTANTS:
        return CONSTANTS[name]
    known = [str(key) for key in names]
    raise ExpressionError(f'the name "{name}" is not defined{nearest(name, known)}; '
                          f"accepted: {', '.join([*known, 'a string in quotes'])}")


def _called(name: str, arguments: Sequence[Any]) -> Any:
    """The value of a call of one of `FUNCTIONS`."""
    if name not in FUNCTIONS:
        raise ExpressionError(f'there is no function "{name}"{nearest(name, list(FUNCTIONS))}; '
                              f"accepted: {listed(FUNCTIONS)}")
    return FUNCTIONS[name](*arguments)


def _entry(owner: Any, key: Any) -> Any:
    """One entry of a mapping, list or string. Attributes of Python objects are out of reach."""
    if isinstance(owner, Mapping):
        if key not in owner:
            known = [str(name) for name in owner]
            raise ExpressionError(f'there is no "{key}"{nearest(str(key), known)}; accepted: {listed(known)}')
        return owner[key]
    if isinstance(owner, list | tuple | range | str) and isinstance(key, int):
        return owner[key]
    raise ExpressionError(f'there is no "{key}" here')


def _first_deciding(sought: bool, values: Sequence[ast.expr], inner: Callable[[ast.expr], Any]) -> Any:
    """Python's `and` and `or`: the first operand whose truth is `sought`, else the last."""
    result = None
    for value in values:
        result = inner(value)
        if bool(result) is sought:
            break
    return result


def _comparison(left: Any, ops: Sequence[ast.cmpop], rights: Sequence[Any]) -> bool:
    """A chain such as `0 < n <= 4`: every neighbouring pair must hold."""
    for op, right in zip(ops, rights, strict=True):
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


_SYMBOLS: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Not: operator.not_, ast.Invert: operator.invert,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda item, owner: item in owner, ast.NotIn: lambda item, owner: item not in owner,
}

CONSTANT_NAMES = frozenset(CONSTANTS)
FUNCTION_NAMES = frozenset(FUNCTIONS)
"""Names that mean something in every expression, whatever names the caller gives."""
