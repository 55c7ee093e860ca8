"""Text that another program may evaluate, rebuilt from a syntax tree in which there is nothing but arithmetic.

Accelergy evaluates unquoted text of its input in Python (`parse_expression_for_arithmetic`), with its own functions and
without builtins, and that is no protection: a lambda whose frames lead to the interpreter's globals runs any code. A
pattern over characters cannot tell such text from arithmetic. Here text is parsed, every node of the tree must be one
of those listed, and the text handed over is written anew from the tree.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable

from fadiff_mapper.yaml.bounded_arithmetic import ExpressionError
from fadiff_mapper.yaml.expressions import Literal, evaluate, syntax_tree

FUNCTIONS = frozenset(("abs", "ceil", "float", "floor", "int", "log", "log10", "log2", "max", "min", "pow", "round",
                       "sqrt"))
"""Functions that an expression may call, with plain arguments."""

MOST_NODES = 500
"""Nodes of one expression; a safety limit, far above what architects write."""

PLAIN = re.compile(r"[\w .,:/+-]*", re.ASCII)
"""Text that stands for itself: letters, digits and _ . , : / + -"""

INDEXED = re.compile(r"([A-Za-z_][\w.-]*)\[([^\[\]]*)\]", re.ASCII)
"""A name with a range, such as PE[0..13], or with an index."""

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.UAdd, ast.USub, ast.Not, ast.And,
              ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def handed_over(text: str, declared: Callable[[str], bool] = lambda name: True) -> str | int | float | None:
    """The text as another program may read it.

    Args:
        text: Text of an input.
        declared: Whether a name is an argument, attribute or variable of the input; a name that stands alone need not
            be, for it is text as well.

    Returns:
        Arithmetic, rebuilt from its syntax tree, where the text is such; the value where the expression has no names; a
        name with a range, whose bounds are rebuilt alike; else the text as `Literal`, to be written in quotes, in which
        nothing is evaluated, where all its characters are those of `PLAIN`. None for any other text.
    """
    if isinstance(text, Literal):
        return text if "__" not in text and (PLAIN.fullmatch(text) or INDEXED.fullmatch(text)) else None
    if (indexed := INDEXED.fullmatch(text)) is not None:
        return _indexed(indexed[1], indexed[2], declared)
    plain = Literal(text) if PLAIN.fullmatch(text) and "__" not in text else None
    try:
        tree = syntax_tree(text)
    except ExpressionError:
        return plain
    return _value_or_text(tree) if is_arithmetic(tree, declared) else plain


def is_arithmetic(tree: ast.expr, declared: Callable[[str], bool] = lambda name: True) -> bool:
    """Whether a tree holds numbers, names, arithmetic, comparisons, conditionals and calls of `FUNCTIONS` alone."""
    if isinstance(tree, ast.Name):
        return "__" not in tree.id and tree.id.isascii()
    waiting, nodes = [tree], 0
    while waiting:
        node, nodes = waiting.pop(), nodes + 1
        if nodes > MOST_NODES:
            return False
        match node:
            case ast.Constant(value=bool() | int() | float()):
                pass
            case ast.Name(id=name):
                if "__" in name or not name.isascii() or not declared(name):
                    return False
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
                waiting += [left, right]
            case ast.UnaryOp(op=op, operand=operand) if isinstance(op, _OPERATORS):
                waiting.append(operand)
            case ast.BoolOp(values=values):
                waiting += values
            case ast.Compare(left=left, ops=ops, comparators=rights) if all(isinstance(op, _OPERATORS) for op in ops):
                waiting += [left, *rights]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                waiting += [test, body, orelse]
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                waiting += arguments  # a starred argument is a node of its own, which is not listed
            case _:
                return False
    return True


def _value_or_text(tree: ast.expr) -> str | int | float | None:
    """The tree as text; a tree without names is computed here, within bounds, and its value handed over."""
    text = ast.unparse(tree)
    if any(isinstance(node, ast.Name) and node.id not in FUNCTIONS for node in ast.walk(tree)):
        return text
    try:
        value = evaluate(text, {})
    except ExpressionError:
        return None
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _indexed(name: str, inside: str, declared: Callable[[str], bool]) -> str | None:
    """NAME[first..last] with both bounds as arithmetic, or NAME[index] in quotes; None where they are not."""
    bounds = inside.split("..")
    if "__" in name or len(bounds) > 2:
        return None
    parts = []
    for bound in bounds:
        try:
            tree = syntax_tree(bound)
        except ExpressionError:
            return None
        if not is_arithmetic(tree, declared) or (part := _value_or_text(tree)) is None:
            return None
        parts.append(str(part))
    whole = f"{name}[{'..'.join(parts)}]"
    return whole if len(parts) == 2 else Literal(whole)
