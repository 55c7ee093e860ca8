"""Expressions compute what architects write, and nothing else: no Python object, no endless work."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.inputs.yaml.expressions import ExpressionError, Literal, evaluate, resolve
from fadiff_mapper.inputs.yaml.place import Where

HERE = Where("a.yaml", path="width")
NAMES = {"depth": 512, "width": 64, "spec": {"problem": {"instance": {"C": 3, "M": 8}}}, "sizes": [4, 5]}


@pytest.mark.parametrize(("text", "value"), [
    ("width * 2", 128),
    ("max(1, ceil(log2(depth))) if depth >= 1 else 1", 9),
    ("2 * (depth ** (1.56 / 2))", 2 * 512 ** 0.78),
    ("depth // 3 % 7 - -1", 512 // 3 % 7 + 1),
    ("1 << 10", 1024),
    ("len(spec.problem.instance)", 2),
    ('spec.problem.instance["M"] + sizes[1]', 13),
    ("width in [32, 64] and not depth < 0 or 1/0", True),
    ("1 < 2 <= 2", True),
    ("min(sizes) + sum(sizes) + prod(sizes)", 33),
    ("round(pi, 2)", 3.14),
    ("[width] + [depth]", [64, 512]),
    ("(1, 2)", [1, 2]),
    ('"a" * 3', "aaa"),
    ("[0, 1] * 2 + 3 * [width]", [0, 1, 0, 1, 64, 64, 64]),
    ("factorial(5) + comb(5, 2)", 130),
])
def test_what_architects_write(text: str, value: object) -> None:
    assert evaluate(text, NAMES) == value


@given(st.integers(-10**9, 10**9), st.integers(-10**9, 10**9), st.sampled_from(["+", "-", "*", "//", "%", "<"]))
def test_arithmetic_is_pythons(left: int, right: int, symbol: str) -> None:
    pythons: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
                               "%": operator.mod, "<": operator.lt}
    if right == 0 and symbol in ("//", "%"):
        with pytest.raises(ExpressionError, match="zero"):
            evaluate(f"({left}) {symbol} ({right})", {})
    else:
        assert evaluate(f"({left}) {symbol} ({right})", {}) == pythons[symbol](left, right)


@pytest.mark.parametrize("text", [
    "().__class__.__bases__", "spec.__class__", "(lambda: 1)()", "[x for x in sizes]", "__import__('os')",
    "open('x')", "f'{depth}'", "sizes.append", "b'x'", "1j", "getcwd()", "spec",
])
def test_python_itself_is_out_of_reach(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, NAMES)


@pytest.mark.parametrize("text", [
    "10**10**10", "'a' * 10**9", "1 << 10**9", "factorial(10**9)", "comb(10**6, 10**5)", "prod(range(1, 9999))",
    "round(5, -10**9)", "range(10**9)", "sizes * 10**9", "sizes * 10**4", "[sizes] * 2", "(1, [2]) * 2",
    "pow(10, 10**9)", "-" * 900 + "1", "1+" * 5000 + "1",
    "(" * 300 + ")" * 300, "'%1000000000d' % 1", "(-1) ** 0.5", "1.5 << 2", "max()", "sizes[7]", "int('x')",
    "1e308 * 10 ** 400", "\0", "\ud800", "", "lambda",
])
def test_too_much_or_meaningless_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, NAMES)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_misspelt_name_is_corrected() -> None:
    with pytest.raises(ExpressionError, match=r'the name "widht" is not defined \(did you mean "width"\?\)'):
        evaluate("widht * 2", NAMES)
    with pytest.raises(ExpressionError, match=r'no function "cel" \(did you mean "ceil"\?\)'):
        evaluate("cel(1.5)", NAMES)


def test_quoted_text_is_never_an_expression() -> None:
    assert resolve("width", HERE, NAMES) == 64
    assert resolve(Literal("width"), HERE, NAMES) == "width"
    assert resolve(["width"], HERE, NAMES) == ["width"]


def test_numeric_text_needs_no_parser() -> None:
    assert [resolve(text, HERE, {}) for text in ("12", "0777", "True", "1e-9", " 3 ")] == [12, 777, True, 1e-9, 3]


@pytest.mark.parametrize("text", ["40nm", "32 KB", "1 ns"])
def test_unquoted_text_that_is_no_expression_is_a_number_with_a_unit_or_needs_quotes(text: str) -> None:
    with pytest.raises(SpecError, match=r"^a[.]yaml: width: .*accepted: a number without a unit, an expression"):
        resolve(text, HERE, NAMES)


PIECES = ["1", "2.5", "'a'", "depth", "sizes", "spec", "(", ")", "[", "]", "+", "-", "*", "**", "/", "//", "%", "<<",
          " if ", " else ", " and ", "max(", "round(", "str(", "range(", "list(", ",", ".", "C", "~", "9" * 30, " in "]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=15).map("".join)))
def test_no_text_raises_anything_but_an_expression_error(text: str) -> None:
    try:
        value = evaluate(text, NAMES)
    except FadiffError:
        return
    assert isinstance(value, bool | int | float | str | list)
    assert not isinstance(value, int) or abs(value) < math.inf
