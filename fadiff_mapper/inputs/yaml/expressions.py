"""Arithmetic in specifications, such as `ceil(log2(depth)) if depth >= 1 else 1`, without Python's `eval`.

Timeloop's Python front end evaluates such text with `eval`; here it is parsed into Python's syntax tree, of which
only the kinds of node listed in `_value` are computed, with bounded operators, so that an expression of at most
`MAX_TEXT` characters ends quickly or is refused.

As in the v0.4 front end, text of variables and attributes is an expression unless its file quotes it (`resolve`).
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from itertools import pairwise
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.inputs.yaml.place import Where

# Plain safety limits, generous for specifications.
MAX_BITS = 4_096  # bits of a whole-numbered result
MAX_SIZE = 100_000  # characters or elements of a result, nested ones counted
MAX_TEXT = 1_000  # characters in one expression
MAX_DEPTH = 50  # levels of nesting in one expression, far below Python's limit on recursion


class ExpressionError(FadiffError):
    """An expression that cannot be computed. The message is only the reason: the caller knows the place."""


class Literal(str):
    """A string that was quoted in its file: equal to the plain string, but never an expression."""

    __slots__ = ()


class Expression(str):
    """A string that is to be written without quotes: equal to the plain string, and an expression where one may be."""

    __slots__ = ()


def _check_bits(bits: int) -> None:
    """Refuses whole numbers of more than `MAX_BITS` bits; callers check a bound before they compute, where they can."""
    if bits > MAX_BITS:
        raise ExpressionError(f"the result is too large; accepted: whole numbers of at most {MAX_BITS} bits")


def _check_length(length: int, most: int, of: str) -> None:
    if length > most:
        raise ExpressionError(f"the result is too long; accepted: at most {most} {of}")


def _added(left: Any, right: Any) -> Any:
    if isinstance(left, str | list) and isinstance(right, str | list):
        _check_length(len(left) + len(right), MAX_SIZE, "elements")
    return left + right


def _multiplied(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    for repeated, count in ((left, right), (right, left)):
        if isinstance(repeated, str) and isinstance(count, int):
            _check_length(len(repeated) * count, MAX_SIZE, "characters")
        if isinstance(repeated, list | tuple) and isinstance(count, int):
            if any(isinstance(item, list | tuple) for item in repeated):  # each such product would multiply the size
                raise ExpressionError("a list of lists cannot be multiplied")
            _check_length(len(repeated) * count, MAX_SIZE // 10, "elements")
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        _check_bits(base.bit_length() * abs(exponent))
    result = base ** exponent
    if isinstance(result, complex):  # the root of a negative number
        raise ValueError("the result is not a real number")
    return result


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        raise ExpressionError("strings are not formatted here")
    return left % right


def _shifted(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right)
    return left << right


def _factorial(value: Any) -> int:
    """n!, which has at most 8 n bits up to n = 691; more than 512 are refused by that bound."""
    _check_bits(value * 8 if value < MAX_BITS else value)
    return math.factorial(value)


def _chosen(function: Callable[[int, int], int], n: Any, k: Any) -> int:
    """`math.comb` or `math.perm` of k out of n, whose result has at most k times as many bits as n."""
    _check_bits(int(n).bit_length() * abs(int(k)))
    return function(n, k)


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
    "str": str, "tuple": list, "comb": partial(_chosen, math.comb), "perm": partial(_chosen, math.perm),
    "factorial": _factorial,
    "pow": _power, "prod": lambda values: reduce(_multiplied, values, 1), "range": _range, "round": rounded,
    "sum": lambda values, start=0: reduce(_added, values, start),
}
"""Constants and functions that every expression can use, beside the names of its caller."""
_OPERATORS: Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", _added), ast.Sub: ("-", operator.sub), ast.Mult: ("*", _multiplied),
    ast.Div: ("/", operator.truediv), ast.FloorDiv: ("//", operator.floordiv), ast.Mod: ("%", _remainder),
    ast.Pow: ("**", _power),
    ast.LShift: ("<<", _shifted), ast.RShift: (">>", operator.rshift), ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_), ast.BitXor: ("^", operator.xor),
}
BINARY = dict(_OPERATORS.values())
"""Binary operators by Python's spelling, with the bounds above. They raise ExpressionError and Python's own errors."""
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Not: operator.not_, ast.Invert: operator.invert,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda item, owner: item in owner, ast.NotIn: lambda item, owner: item not in owner,
}


def evaluate(text: str, names: Mapping[str, object]) -> Any:
    """Computes an expression of at most `MAX_TEXT` characters to a number, string, boolean or list.

    Mappings among the `names` are read by attribute or index, as in `len(spec.problem.instance)`; attributes of Python
    objects are out of reach. Raises ExpressionError, and nothing else, where the text is no expression, cannot be
    computed, or exceeds a limit.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters; accepted: at most {MAX_TEXT}")
    try:
        result = _value(syntax_tree(text), names, 0)
        return _checked_size(list(result) if isinstance(result, tuple | range) else result)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f'cannot compute "{_shown(text)}": {error or type(error).__name__}') from None


def resolve(value: Any, where: Where, names: Mapping[str, object]) -> Any:
    """The value of a variable or attribute as the v0.4 front end understands it. Raises SpecError with the place.

    Only unquoted text is changed: a whole number or boolean is converted, any other text is evaluated. A result that is
    text counts as quoted.
    """
    if not isinstance(value, str) or isinstance(value, Literal):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    with suppress(ValueError):
        return int(value)
    try:
        result = evaluate(value, names)
    except ExpressionError as error:
        raise where.error(str(error)) from None
    return Literal(result) if isinstance(result, str) else result


def syntax_tree(text: str) -> ast.expr:
    """Parses an expression into Python's syntax tree and computes nothing. Raises ExpressionError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f'"{_shown(text)}" is not an expression; accepted: a number without a unit, an '
                              "expression such as 2 * depth, or a string in quotes") from None


def _shown(text: str) -> str:
    """The text as it fits into a message of one line."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:77] + "..."


def _checked_size(value: Any) -> Any:
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
            _check_bits(item.bit_length())
    return value


def _value(node: ast.expr, names: Mapping[str, object], depth: int) -> Any:
    """Computes one node; `depth` levels of nesting surround it."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested too deeply; accepted: at most {MAX_DEPTH} levels")

    def inner(part: ast.expr) -> Any:
        return _value(part, names, depth + 1)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):  # the caller's names come before the constants of mathematics
            if name not in names and name not in CONSTANTS:
                known = [str(key) for key in names]
                raise ExpressionError(f'the name "{name}" is not defined{nearest(name, known)}; '
                                      f"accepted: {', '.join([*known, 'a string in quotes'])}")
            return names[name] if name in names else CONSTANTS[name]
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) in _OPERATORS:
                return _OPERATORS[type(op)][1](inner(left), inner(right))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](inner(operand))
        case ast.BoolOp(op=op, values=values):  # the first operand whose truth decides, else the last
            result = None
            for part in values:
                result = inner(part)
                if bool(result) is isinstance(op, ast.Or):
                    break
            return result
        case ast.Compare(left=left, ops=ops, comparators=rights):
            operands = [inner(part) for part in (left, *rights)]
            return all(_COMPARE[type(op)](*pair) for op, pair in zip(ops, pairwise(operands), strict=True))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return inner(body) if inner(test) else inner(orelse)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [inner(item) for item in items]
        case ast.Attribute(value=owner, attr=key):
            return _entry(inner(owner), key)
        case ast.Subscript(value=owner, slice=ast.expr() as index) if not isinstance(index, ast.Slice):
            return _entry(inner(owner), inner(index))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            given = [inner(argument) for argument in arguments]
            if name not in FUNCTIONS:
                raise ExpressionError(f'there is no function "{name}"{nearest(name, list(FUNCTIONS))}; '
                                      f"accepted: {listed(FUNCTIONS)}")
            return FUNCTIONS[name](*given)
    raise ExpressionError(f'"{_shown(ast.unparse(node))}" is not available in expressions')


def _entry(owner: Any, key: Any) -> Any:
    """One entry of a mapping, list or string. Attributes of Python objects are out of reach."""
    if isinstance(owner, Mapping):
        if key not in owner:
            known = [str(name) for name in owner]
            raise ExpressionError(f'there is no "{key}"{nearest(str(key), known)}; accepted: {listed(known)}')
        return owner[key]
    if isinstance(owner, Sequence) and isinstance(key, int):  # a list, range or string
        return owner[key]
    raise ExpressionError(f'there is no "{key}" here')
