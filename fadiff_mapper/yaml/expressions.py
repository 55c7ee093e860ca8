"""Arithmetic in specifications, such as `ceil(log2(depth)) if depth >= 1 else 1`, without Python's `eval`.

Timeloop's Python front end evaluates such text with `eval`; here it is parsed into Python's syntax tree, of which
only the kinds of node listed in `_value` are computed, with bounded operators (`bounded_arithmetic`), so that an
expression of at most `MAX_TEXT` characters ends quickly or is refused.

As in the v0.4 front end, the text of variables and attributes is an expression unless it was quoted in the file
(`resolve`).
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.yaml.bounded_arithmetic import CONSTANTS, FUNCTIONS, ExpressionError, binary, checked_size

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
