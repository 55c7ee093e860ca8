"""Templates give what Jinja gives, on the lines where it was written, and can neither escape nor run on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.inputs.yaml import jinja_sandbox
from fadiff_mapper.inputs.yaml.jinja_sandbox import marked, render
from fadiff_mapper.inputs.yaml.templates import Budget, Rendered, is_template


def rendered(text: str, data: Mapping[str, object] | None = None,
             functions: Mapping[str, Callable[..., object]] | None = None, units: int = 20_000) -> Rendered:
    return render(text, "arch.yaml", functions or {}, data or {}, Budget(units))


def refusal(text: str, data: Mapping[str, object] | None = None, units: int = 20_000) -> str:
    with pytest.raises(SpecError) as caught:
        rendered(text, data, units=units)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("text", "result"), [
    ("a: {{ x }}", "a: 5"),
    ("a: {{ y | default(8) }}", "a: 8"),
    ("{% if x > 4 %}big{% else %}small{% endif %}", "big"),
    ("{% for i in range(3) %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/3 2/3 3/3 "),
    ("{% set p = 'a' ~ '/' ~ x %}{{ p }}", "a/5"),
    ("{% macro pe(n) %}PE{{ n }}{% endmacro %}{{ pe(1) }} {{ pe(2) | lower }}", "PE1 pe2"),
    ("{% for k, v in m.items() %}{{ k }}={{ v * 2 }}{% endfor %}", "C=6"),
    ("{{ [1, 2] | join(', ') }} {{ 'a-b' | replace('-', '_') }} {{ 2 ** 10 // 3 }}", "1, 2 a_b 341"),
    ("{# a remark #}{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
    ("{% set s %}body{{ x }}{% endset %}{{ s | upper }}", "BODY5"),
    ("{{ twice(x) }}", "10"),
])
def test_ordinary_templates(text: str, result: str) -> None:
    data = {"x": 5, "m": {"C": 3}}
    assert rendered(text, data, {"twice": lambda value: 2 * value}).text == result


@pytest.mark.parametrize("expression", [
    "text | indent(2)", "text | indent('> ', first=true)", "text | title", "text | wordwrap(6)", "text | truncate(9)",
    "numbers | sort(reverse=true) | join('-')", "numbers | map('string') | join(', ')", "numbers | batch(2) | list",
    "numbers | slice(2) | list", "numbers | select('odd') | list", "rows | map(attribute='v') | sum",
    "rows | selectattr('v', 'gt', 1) | list", "rows | groupby('n') | length", "table | dictsort",
    "table | items | list",
    "table | tojson(indent=1)", "'%03d-%s' | format(3, 'x')", "2.7 | round", "2.71 | round(1, 'floor')",
    "none | default('x', true)", "['b', 'A'] | sort | first", "'a' | center(7)"])
def test_filters_give_what_jinja_gives(expression: str) -> None:
    data = {"numbers": [3, 1, 2], "table": {"b": 1, "a": 2}, "text": "a few words\nx",
            "rows": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]}
    template = f"{{{{ {expression} }}}}"
    assert rendered(template, data).text == jinja2.Environment().from_string(template).render(data)


@given(st.text().filter(lambda text: "{" not in text))
def test_text_without_template_syntax_is_untouched(text: str) -> None:
    assert not is_template(text)
    assert rendered(text).text == text


def test_every_output_line_knows_its_source_line() -> None:
    text = "a: {{ x }}\n{% for i in range(2) %}\n- {{ i }}\n{% endfor %}\nz: 1"
    lines = rendered(text, {"x": 1})
    numbers = {line.strip(): place[1] for line, place in zip(lines.text.split("\n"), lines.lines, strict=True)}
    assert (numbers["a: 1"], numbers["- 0"], numbers["- 1"], numbers["z: 1"]) == (1, 3, 3, 5)


def test_inserted_text_keeps_the_places_of_its_own_file() -> None:
    inner = render("p: 1\nq: {{ 2 }}", "inner.yaml", {}, {}, Budget())
    outer = rendered("{{ text() }}\nr: 3", functions={"text": lambda: marked(inner)})
    assert outer.text == "p: 1\nq: 2\nr: 3"
    assert outer.lines == (("inner.yaml", 1), ("inner.yaml", 2), ("arch.yaml", 2))


@pytest.mark.parametrize(("text", "message"), [
    ("a: 1\nb: {{ wdith }}", 'arch.yaml:2: template: the name "wdith" is not defined (did you mean "width"?)'),
    ("{{ 'x' | uper }}", 'arch.yaml:1: template: there is no filter "uper" (did you mean "upper"?)'),
    ("\n\n{{ 'a' + 1 }}", "arch.yaml:3: template: can only concatenate"),
    ("a\n{% if %}", "arch.yaml:2: template: Expected an expression"),
    ("{{ 1 / 0 }}", "arch.yaml:1: template: division by zero"),
    ("{{ no_such(1) }}", 'arch.yaml:1: template: the name "no_such" is not defined'),
    ("{% include 'x' %}", 'arch.yaml:1: template: the statement "include" is not supported'),
    ("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "arch.yaml:1: template: the recursive loop"),
])
def test_mistakes_name_their_line_and_the_remedy(text: str, message: str) -> None:
    assert refusal(text, {"width": 8}).startswith(message)


@pytest.mark.parametrize("text", [
    "{{ ''.__class__ }}", "{{ x.__class__.__mro__ }}", "{{ x.__init__.__globals__ }}", "{{ ''['__class__'] }}",
    "{{ x | attr('__class__') }}", "{{ call() }}", "{{ '{0.__class__}'.format(x) }}", "{{ cycler(1) }}",
    "{{ lipsum.__globals__ }}", "{{ self.__init__ }}", "{{ l.append(1) }}", "{% import 'os' as os %}",
])
def test_python_is_out_of_reach(text: str) -> None:
    refusal(text, {"x": {}, "l": [1], "call": print})


GROW = ("{{% set ns = namespace(v={start}) %}}"
        "{{% for i in range(90) %}}{{% set ns.v = {step} %}}{{% endfor %}}{{{{ ns.v }}}}")


@pytest.mark.parametrize("text", [
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% set x %}{% for i in range(9999) %}" + "x" * 10_000 + "{% endfor %}{% endset %}",
    GROW.format(start="'ab'", step="ns.v ~ ns.v"),
    GROW.format(start="'ab'", step="ns.v + ns.v"),
    GROW.format(start="'ab'", step="[ns.v, ns.v] | join(ns.v)"),
    GROW.format(start="'ab'", step="ns.v | replace('a', ns.v)"),
    GROW.format(start="[1]", step="[ns.v, ns.v]"),
    GROW.format(start="2", step="ns.v * ns.v"),
    "{{ 'a' * 10**9 }}", "{{ 10 ** 9999 }}", "{{ '%1000000000d' % 1 }}", "{{ 'a'.center(10**9) }}",
    "{{ 'a' | center(10**9) }}", "{{ 5 | round(-10**9) }}", "{{ 'a' | indent(10**9) }}",
    "{{ [1] | batch(10**9, 0) | list }}", "{{ [1] | slice(10**9) | list }}", "{{ '%1000000000d' | format(1) }}",
    "{{ '%*d' | format(10**9, 1) }}", "{{ {'a': 1} | tojson(indent=10**9) }}", "{{ [[1]] | sum(start=[]) }}",
    "{{ ['a'] | map('center', 10**9) | list }}", "{{ range(9999) | map('string') | join('x' * 9999) }}",
    "{{ ('ab\n' * 999) | wordwrap(1, true, 'x' * 9999) }}", "{{ '9' | int(base=0) * 'a' * 10**9 }}",
    "{{ [" + "1," * 200_000 + "] }}", "{{ (" * 2000, "{{ " + "-" * 5000 + "1 }}", "{{ " + "9" * 5000 + " }}",
    "{% if 1 %}" * 200 + "{% endif %}" * 200,
])
def test_no_template_runs_on(text: str) -> None:
    start = time.monotonic()
    refusal(text)
    assert time.monotonic() - start < 10


def test_the_clock_ends_what_the_count_does_not() -> None:
    with pytest.raises(SpecError, match="takes too long"):
        render("{% for i in range(9) %}{% endfor %}", "arch.yaml", {}, {}, Budget(deadline=time.thread_time() - 1))


def test_output_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jinja_sandbox, "MAX_OUTPUT", 100)
    assert "has 101 characters; accepted: at most 100" in refusal("{% for i in range(101) %}x{% endfor %}")


PIECES = ["{{", "}}", "{%", "%}", "{#", "#}", " for ", " i ", " in ", " range(3) ", " endfor ", " if ", " endif ", "x",
          " set ", "=", "|", "join", "(", ")", "[", "]", "'a'", "~", "*", "9", ".", "\n", " macro ", "\x02", "1:\x03"]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_no_text_raises_anything_but_a_spec_error(text: str) -> None:
    try:
        result = rendered(text, {"x": 1})
    except FadiffError:
        return
    assert len(result.lines) == result.text.count("\n") + 1


def test_no_version_of_jinja_with_known_ways_out_of_the_sandbox_is_accepted() -> None:
    """3.1.5 and 3.1.6 mended such ways: by a reference to `str.format`, and by the filter `attr`."""
    setup = ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
    floor, = (line.split(">=")[1] for line in setup["options"]["install_requires"].splitlines() if "Jinja2" in line)
    assert tuple(map(int, floor.split("."))) >= (3, 1, 6)
