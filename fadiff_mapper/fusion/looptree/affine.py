"""The two kinds of isl text in a fused problem, read by a small parser: index tuples and bounds of ranks.

    projection("[ C1, 2*P1 + R1 ]")         one affine expression per axis of a tensor
    bounds("0 <= P1 < 14 and 0 <= R1 < 3")  the first and last value of every rank

isl knows much more (existential variables, unions, modulo); what is not read here is refused, never guessed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.yaml.expressions import MAX_DEPTH, MAX_TEXT, ExpressionError, syntax_tree

MOST = 1 << 31
"""Size of any coefficient, constant or bound."""

_IMPLICIT_PRODUCT = re.compile(r"(?<!\w)(\d+)\s*(?=[A-Za-z_(])(?!(?:and|or|not|in|is|if|else)\b)")


@dataclass(frozen=True)
class Affine:
    """`constant + sum(coefficient * rank)`; ranks with coefficient 0 are left out."""

    terms: Mapping[str, int]
    constant: int = 0


def projection(text: str, ranks: Sequence[str]) -> tuple[Affine, ...]:
    """The entries of an isl tuple of affine expressions over `ranks`. Raises ExpressionError."""
    node = _parsed(text)
    if not isinstance(node, ast.List):
        raise ExpressionError(f'found "{text.strip()}"; accepted: a tuple such as [ {listed(ranks[:2])} ]')
    return tuple(_affine(entry, ranks, 0) for entry in node.elts)


def bounds(text: str, ranks: Sequence[str]) -> dict[str, range]:
    """The values of every rank, from comparisons with numbers that are joined by `and`. Raises ExpressionError."""
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
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the text has {len(text)} characters; accepted: at most {MAX_TEXT}")
    return syntax_tree(_IMPLICIT_PRODUCT.sub(r"\1*", text))


_MIRRORED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq}


def _take_bound(left: Affine, op: ast.cmpop, right: Affine, low: dict[str, int], high: dict[str, int]) -> None:
    """Tightens the bounds of a rank by `rank op number` or `number op rank`."""
    kind = type(op)
    if right.terms and not left.terms:
        left, right, kind = right, left, _MIRRORED.get(kind, kind)
    if right.terms or len(left.terms) != 1 or set(left.terms.values()) != {1} or kind not in _MIRRORED:
        raise ExpressionError("found a bound that is not a comparison of one rank with a number; "
                              "accepted: 0 <= P < 8 and so on")
    (rank,) = left.terms
    value = right.constant - left.constant
    if kind in (ast.Gt, ast.GtE, ast.Eq):
        least = value + (kind is ast.Gt)
        low[rank] = max(least, low.get(rank, least))
    if kind in (ast.Lt, ast.LtE, ast.Eq):
        most = value - (kind is ast.Lt)
        high[rank] = min(most, high.get(rank, most))


_SUMS: Mapping[type[ast.operator], Callable[[int, int], int]] = {ast.Add: operator.add, ast.Sub: operator.sub}


def _affine(node: ast.expr, ranks: Sequence[str], depth: int) -> Affine:
    """One affine expression; `depth` levels of nesting surround it."""
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
            one, two = _affine(left, ranks, depth + 1), _affine(right, ranks, depth + 1)
            combine = _SUMS[type(op)]
            names = dict.fromkeys([*one.terms, *two.terms])
            return _checked({name: combine(one.terms.get(name, 0), two.terms.get(name, 0)) for name in names},
                            combine(one.constant, two.constant))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, two = _affine(left, ranks, depth + 1), _affine(right, ranks, depth + 1)
            if not one.terms:
                return _scaled(two, one.constant)
            if not two.terms:
                return _scaled(one, two.constant)
    raise ExpressionError(f'"{_written(node)}" is not affine; accepted: sums of number * rank')


def _written(node: ast.expr) -> str:
    """The text of a part, or a word for it where it is nested too deeply to write down."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "..."


def _scaled(value: Affine, factor: int) -> Affine:
    return _checked({name: factor * coefficient for name, coefficient in value.terms.items()},
                    factor * value.constant)


def _checked(terms: Mapping[str, int], constant: int) -> Affine:
    if any(abs(value) > MOST for value in (*terms.values(), constant)):
        raise ExpressionError(f"a number is too large; accepted: at most {MOST}")
    return Affine({name: value for name, value in terms.items() if value}, constant)
