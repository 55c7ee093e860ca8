"""Parses the two kinds of isl text in a fused problem: index tuples and bounds of ranks.

    projection("[ C1, 2*P1 + R1 ]")         one affine expression per axis of a tensor
    bounds("0 <= P1 < 14 and 0 <= R1 < 3")  the first and last value of every rank

isl knows much more (existential variables, unions, modulo); any other text is refused, never guessed. LoopTree hands
the text to isl itself; here Python's own grammar parses it (`yaml.expressions.syntax_tree`), which executes nothing.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.yaml.bounded_arithmetic import ExpressionError
from fadiff_mapper.yaml.expressions import MAX_DEPTH, MAX_TEXT, syntax_tree

MOST = 1 << 31
"""Size of any coefficient, constant or bound: a plain safety limit, so that a product of two fits into int64."""

_IMPLICIT_PRODUCT = re.compile(r"(?<!\w)(\d+)\s*(?=[A-Za-z_(])(?!(?:and|or|not|in|is|if|else)\b)")


@dataclass(frozen=True)
class Affine:
    """An affine expression, `constant + sum(coefficient * rank)`.

    Attributes:
        terms: rank -> coefficient; ranks with coefficient 0 are left out.
        constant: the constant.
    """

    terms: Mapping[str, int]
    constant: int = 0


def projection(text: str, ranks: Sequence[str]) -> tuple[Affine, ...]:
    """Parses an isl tuple of affine expressions.

    Args:
        text: such as "[ C1, 2*P1 + R1 ]"; a number may stand directly before a rank, as in "2P1".
        ranks: the names that may occur.

    Returns:
        An expression per entry.

    Raises:
        ExpressionError: the text is no tuple, names another rank, or has an entry that is not affine.
    """
    node = _parsed(text)
    if not isinstance(node, ast.List):
        raise ExpressionError(f'found "{text.strip()}"; accepted: a tuple such as [ {listed(ranks[:2])} ]')
    return tuple(_affine(entry, ranks, 0) for entry in node.elts)


def bounds(text: str, ranks: Sequence[str]) -> dict[str, range]:
    """Parses comparisons of ranks with numbers that are joined by `and`.

    Args:
        text: such as "0 <= P1 < 14 and 0 <= R1 < 3".
        ranks: the ranks to bound.

    Returns:
        The values of every rank, in the order of `ranks`.

    Raises:
        ExpressionError: a rank has no lower or no upper bound or no value, or the text is no such comparison.
    """
    node = _parsed(text)
    parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for part in parts:
        if not isinstance(part, ast.Compare):
            raise ExpressionError(f'found "{_written(part)}"; accepted: 0 <= {ranks[0]} < 8 and so on')
        sides = [_affine(side, ranks, 0) for side in (part.left, *part.comparators)]
        for left, op, right in zip(sides, part.ops, sides[1:], strict=False):
            _take_bound(left, op, right, low, high)
    for rank in ranks:
        if rank not in low or rank not in high:
            raise ExpressionError(f"the rank {rank} has no {'upper' if rank in low else 'lower'} bound; "
                                  f"accepted: 0 <= {rank} < 8")
        if high[rank] < low[rank]:
            raise ExpressionError(f"the rank {rank} has no value: {low[rank]} <= {rank} <= {high[rank]}")
    return {rank: range(low[rank], high[rank] + 1) for rank in ranks}


def _parsed(text: str) -> ast.expr:
    """The syntax tree of isl text, with the products that isl leaves implicit ("2P1") written out."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the text has {len(text)} characters; accepted: at most {MAX_TEXT}")
    return syntax_tree(_IMPLICIT_PRODUCT.sub(r"\1*", text))


_MIRRORED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
"""The comparisons that are read -> the same comparison with its sides exchanged."""


def _take_bound(left: Affine, op: ast.cmpop, right: Affine, low: dict[str, int], high: dict[str, int]) -> None:
    """Tightens the bounds of a rank by `rank op number` or `number op rank`."""
    comparison = type(op)
    if right.terms and not left.terms:
        left, right, comparison = right, left, _MIRRORED.get(comparison, comparison)
    if right.terms or len(left.terms) != 1 or set(left.terms.values()) != {1} or comparison not in _MIRRORED:
        raise ExpressionError("found a bound that is not a comparison of one rank with a number; "
                              "accepted: 0 <= P < 8 and so on")
    (rank,) = left.terms
    value = right.constant - left.constant
    if comparison in (ast.Gt, ast.GtE, ast.Eq):
        least = value + (comparison is ast.Gt)
        low[rank] = max(least, low.get(rank, least))
    if comparison in (ast.Lt, ast.LtE, ast.Eq):
        most = value - (comparison is ast.Lt)
        high[rank] = min(most, high.get(rank, most))


_SUMS: Mapping[type[ast.operator], Callable[[int, int], int]] = {ast.Add: operator.add, ast.Sub: operator.sub}


def _affine(node: ast.expr, ranks: Sequence[str], depth: int) -> Affine:
    """An affine expression; `depth` levels of nesting surround it."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested too deeply; accepted: at most {MAX_DEPTH} levels")
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return _checked({}, value)
        case ast.Name(id=name):
            if name not in ranks:
                raise ExpressionError(f'there is no rank "{name}"{nearest(name, ranks)}; accepted: {listed(ranks)}')
            return Affine({name: 1})
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _scaled(_affine(operand, ranks, depth + 1), -1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
            first, second = _affine(left, ranks, depth + 1), _affine(right, ranks, depth + 1)
            combine = _SUMS[type(op)]
            names = dict.fromkeys([*first.terms, *second.terms])
            return _checked({name: combine(first.terms.get(name, 0), second.terms.get(name, 0)) for name in names},
                            combine(first.constant, second.constant))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = _affine(left, ranks, depth + 1), _affine(right, ranks, depth + 1)
            if not first.terms:
                return _scaled(second, first.constant)
            if not second.terms:
                return _scaled(first, second.constant)
    raise ExpressionError(f'"{_written(node)}" is not affine; accepted: sums of number * rank')


def _written(node: ast.expr) -> str:
    """The text of a part, or a word for it where it is nested too deeply to write down."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "..."


def _scaled(value: Affine, factor: int) -> Affine:
    """The expression times a number."""
    return _checked({name: factor * coefficient for name, coefficient in value.terms.items()},
                    factor * value.constant)


def _checked(terms: Mapping[str, int], constant: int) -> Affine:
    """The expression without zero terms. Raises ExpressionError where a number is too large."""
    if any(abs(value) > MOST for value in (*terms.values(), constant)):
        raise ExpressionError(f"a number is too large; accepted: at most {MOST}")
    return Affine({name: value for name, value in terms.items() if value}, constant)
