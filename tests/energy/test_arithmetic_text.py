"""Of all expressions of Python's grammar, none but arithmetic is handed to a program that evaluates text."""

from __future__ import annotations

import ast
import dis
import random
import types

import pytest

from fadiff_mapper.energy.arithmetic_text import FUNCTIONS, handed_over
from fadiff_mapper.yaml.expressions import Literal

NAMES = ("a", "depth", "width", "max", "ceil", "log2", "abs", "print", "__class__", "x__y")

ARITHMETIC = {"RESUME", "CACHE", "PRECALL", "PUSH_NULL", "LOAD_NAME", "LOAD_CONST", "LOAD_SMALL_INT", "BINARY_OP",
              "CALL", "CALL_FUNCTION", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_NOT",
              "CALL_INTRINSIC_1",
              "COPY",
              "DUP_TOP", "ROT_TWO", "ROT_THREE", "SWAP",
              "POP_TOP", "TO_BOOL", "NOT_TAKEN", "NOP", "RETURN_VALUE",
              "RETURN_CONST", "BINARY_ADD", "BINARY_SUBTRACT", "BINARY_MULTIPLY", "BINARY_TRUE_DIVIDE", "BINARY_POWER",
              "BINARY_FLOOR_DIVIDE", "BINARY_MODULO"}
"""Instructions of Python 3.10 to 3.13 that compute; jumps come besides. None makes a function, reads an attribute or an
item, writes a name, or builds a container."""


def expression(rng: random.Random, depth: int) -> ast.expr:
    """A random tree over the whole grammar of expressions."""
    def part() -> ast.expr:
        return expression(rng, depth - 1)

    def parts(least: int = 0) -> list[ast.expr]:
        return [part() for _ in range(rng.randint(least, 2))]

    def name(context: ast.expr_context | None = None) -> ast.Name:
        return ast.Name(rng.choice(NAMES), context or ast.Load())

    def arguments() -> ast.arguments:
        named = rng.sample(NAMES, rng.randint(0, 2))
        return ast.arguments([], [ast.arg(one) for one in named], None, [], [], None, [part() for _ in named])

    def comprehension() -> list[ast.comprehension]:
        return [ast.comprehension(name(ast.Store()), part(), parts(), 0)]

    if depth <= 0:
        return rng.choice([name(), ast.Constant(rng.choice([0, 7, 2.5, True, "text", None, b"x", 3j, ...]))])
    kinds = {
        "BinOp": lambda: ast.BinOp(part(), rng.choice([kind() for kind in ast.operator.__subclasses__()]), part()),
        "UnaryOp": lambda: ast.UnaryOp(rng.choice([ast.USub(), ast.UAdd(), ast.Not(), ast.Invert()]), part()),
        "BoolOp": lambda: ast.BoolOp(rng.choice([ast.And(), ast.Or()]), [part(), part()]),
        "Compare": lambda: ast.Compare(part(), [rng.choice([kind() for kind in ast.cmpop.__subclasses__()])], [part()]),
        "IfExp": lambda: ast.IfExp(part(), part(), part()),
        "Call": lambda: ast.Call(rng.choice([name(), part()]), [*parts(), *(
            [ast.Starred(part(), ast.Load())] if rng.random() < 0.2 else [])],
            [ast.keyword(rng.choice([None, "key"]), part())] if rng.random() < 0.2 else []),
        "Lambda": lambda: ast.Lambda(arguments(), part()),
        "NamedExpr": lambda: ast.NamedExpr(name(ast.Store()), part()),
        "Attribute": lambda: ast.Attribute(part(), rng.choice(["b", "gi_frame", "f_globals"]), ast.Load()),
        "Subscript": lambda: ast.Subscript(part(), rng.choice([part(), ast.Slice(part(), None, None)]), ast.Load()),
        "List": lambda: ast.List(parts(), ast.Load()), "Tuple": lambda: ast.Tuple(parts(), ast.Load()),
        "Set": lambda: ast.Set(parts(1)), "Dict": lambda: ast.Dict([part()], [part()]),
        "ListComp": lambda: ast.ListComp(part(), comprehension()),
        "SetComp": lambda: ast.SetComp(part(), comprehension()),
        "DictComp": lambda: ast.DictComp(part(), part(), comprehension()),
        "GeneratorExp": lambda: ast.GeneratorExp(part(), comprehension()),
        "Await": lambda: ast.Await(part()), "Yield": lambda: ast.Yield(part()),
        "YieldFrom": lambda: ast.YieldFrom(part()),
        "JoinedStr": lambda: ast.JoinedStr([ast.FormattedValue(part(), -1, None)]),
    }
    kind = rng.choice(["BinOp", "Compare", "IfExp", "Call", "UnaryOp"] * 3 + list(kinds))
    return kinds[kind]()


def computes_only(text: str) -> bool:
    """Whether the compiled text only computes, and calls nothing but listed functions."""
    code = compile(text, "text", "eval")
    if any(isinstance(constant, types.CodeType) for constant in code.co_consts):
        return False
    tree = ast.parse(text, mode="eval")
    called = [node.func.id if isinstance(node.func, ast.Name) else "" for node in ast.walk(tree)
              if isinstance(node, ast.Call)]
    names = {instruction.opname for instruction in dis.get_instructions(code)}
    return (set(called) <= FUNCTIONS and not any("__" in name for name in code.co_names)
            and all(name in ARITHMETIC or "JUMP" in name for name in names))


def test_of_ten_thousand_random_expressions_only_arithmetic_is_handed_over() -> None:
    rng, passed, refused = random.Random(0), 0, 0
    while passed + refused < 10_000:
        tree = ast.fix_missing_locations(expression(rng, rng.randint(1, 4)))
        try:
            text = ast.unparse(tree)
            ast.parse(text, mode="eval")
        except (SyntaxError, ValueError, RecursionError):
            continue
        result = handed_over(text)
        if result is None or isinstance(result, Literal):
            refused += 1
        else:
            passed += 1
            assert computes_only(str(result)), (text, result)
    assert passed > 200 and refused > 5_000


@pytest.mark.parametrize("text", ["max" + "(1" * 400 + ")" * 400, "1+" * 400 + "a", "a" * 2000, "-" * 900 + "a"])
def test_long_and_deep_text_ends_soon(text: str) -> None:
    handed_over(text)
