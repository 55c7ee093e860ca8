"""Jinja2 templates in specifications, rendered so that a template can neither escape nor run on.

Timeloop's Python front end renders templates in an open Jinja environment; here three fences surround it.
Jinja's immutable sandbox keeps Python's objects out of reach, and only the functions given by the caller, macros and
a few methods of strings and mappings can be called. Only the statements in `_STATEMENTS` and the filters in `NAMES`
exist. Every loop step, call, computed value and piece of output is charged to a `Budget`, for which the syntax tree is
rewritten before it is compiled.

The newlines of the template's own text carry marks (control characters, which YAML does not allow) while it is
rendered; they become the table that leads from a line of the output back to the file and line it came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import Any, NoReturn

import jinja2
from jinja2 import Environment, nodes
from jinja2.filters import FILTERS
from jinja2.nodes import EvalContext
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fadiff_mapper.base.errors import FadiffError, SpecError, listed, nearest
from fadiff_mapper.inputs.yaml.expressions import BINARY, rounded
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.inputs.yaml.templates import Budget, Rendered, is_template

# Plain safety limits.
MAX_TOKENS = 50_000  # words and signs inside the tags of one template: compiling them takes the longest
MAX_OUTPUT = 8 << 20  # characters that one template may produce
DEPTH = 50  # levels of nesting that an indented JSON text is priced for; YAML is limited to as many
LEFT_OUT = ("attr", "random", "urlize")
"""Filters of Jinja's that do not exist here: Python's attributes, chance, and links have no place in input files."""
NAMES = tuple(sorted(name for name in FILTERS if name not in LEFT_OUT))  # the filters that exist here
STEP_BY_STEP = ("join", "map", "select", "reject", "selectattr", "rejectattr")
"""Filters that do work for each value on its way; each value is charged, and the clock is looked at."""

# The methods of strings and mappings that a template may call.
_METHODS = ("endswith", "get", "items", "keys", "lower", "split", "startswith", "strip", "upper", "values")

# The statements of Jinja that exist here; `include` and `import` are functions of the front end instead.
_STATEMENTS = (nodes.Template, nodes.Output, nodes.For, nodes.If, nodes.Macro, nodes.Assign, nodes.AssignBlock,
               nodes.With, nodes.ExprStmt)
_PAID = (nodes.Call, nodes.Concat, nodes.BinExpr, nodes.Filter, nodes.Getitem)
"""Expressions whose value may be much larger than the text that asks for it."""
Function = Callable[..., Any]


def render(text: str, file: str, functions: Mapping[str, Function], data: Mapping[str, object],
           budget: Budget) -> Rendered:
    """Renders a template, a file's text; text without template syntax is returned as it is.

    Functions that it may call report a mistake of its author as ValueError. Raises SpecError for a mistake, undefined
    name, unavailable feature, or exhausted budget, with file and line of the template.
    """
    if not is_template(text):
        return Rendered(text, tuple((file, line) for line in range(1, text.count("\n") + 2)))
    environment = _Environment(functions, budget)
    try:
        if next(islice(environment.lex(text, None, file), MAX_TOKENS, None), None) is not None:
            raise Where(file).error("the template is too long", f"at most {MAX_TOKENS} words and signs in tags")
        tree = environment.parse(text, None, file)
        for statement in tree.find_all((nodes.Stmt, nodes.FilterBlock)):
            recursive = isinstance(statement, nodes.For) and statement.recursive
            if recursive or not isinstance(statement, _STATEMENTS):
                name = "recursive loop" if recursive else f'statement "{type(statement).__name__.lower()}"'
                raise Where(file, statement.lineno).error(
                    f"template: the {name} is not supported", "for, if, set, with, macro; include(), include_text()")
        _mark_lines(tree)
        _guard(tree, environment)
        code = environment.compile(tree, None, file)
        template = jinja2.Template.from_code(environment, code, dict(environment.globals))
        marked_text = template.render(dict(data))
    except SpecError:
        raise
    except Exception as error:  # a template's own expressions may raise anything
        _raise_template_error(error, file, [] if isinstance(error, FadiffError) else [*environment.globals, *data])
    if len(marked_text) > 2 * MAX_OUTPUT:
        raise Where(file).error("the template's output is too long", f"at most {MAX_OUTPUT} characters")
    return _unmarked(marked_text, file)


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with bounded arithmetic and no callables but the ones listed here."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self, functions: Mapping[str, Function], budget: Budget):
        @jinja2.pass_context  # with a context, Jinja computes nothing while it compiles
        def paid(_: Any, value: Any) -> Any:
            return budget.weigh(value)

        super().__init__(undefined=jinja2.StrictUndefined, finalize=paid, optimized=False, cache_size=0)
        self.globals = {**{name: self.globals[name] for name in ("range", "namespace")}, **functions}
        self.filters = {**{name: _priced(name, budget) for name in NAMES},
                        "_weighed": budget.weigh, "_steps": budget.steps}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Jinja's hook for arithmetic: bounded as in expressions."""
        return BINARY[operator](_defined(left), _defined(right))

    def is_safe_callable(self, obj: Any) -> bool:
        """Jinja's hook for calls: macros, the given functions and `_METHODS` pass, ValueError names any other."""
        if isinstance(obj, Macro) or any(obj is function for function in self.globals.values()):
            return True
        owner, name = getattr(_defined(obj), "__self__", None), getattr(obj, "__name__", "this value")
        if isinstance(owner, LoopContext) or (isinstance(owner, str | dict) and name in _METHODS):
            return True
        raise ValueError(f'"{name}" cannot be called; accepted: {listed([*self.globals, *_METHODS])}')


def _defined(value: Any) -> Any:
    """The value; asking an undefined one for its text raises the error that names the variable."""
    if isinstance(value, Undefined):
        str(value)
    return value


# Filters. The sandbox charges the sizes of their operands and results. Filters whose work is a product of operands, or
# follows from the size of a number, have a price here besides.

def _priced(name: str, budget: Budget) -> Function:
    """The filter that first pays its price; some filters take a context of Jinja's before the value."""
    function, price = FILTERS[name], PRICES.get(name)

    @wraps(function)  # takes over Jinja's own mark of filters that want a context
    def paid(*arguments: Any, **named: Any) -> Any:
        contexts = 1 if isinstance(arguments[0], EvalContext | Environment | Context) else 0
        value, *others = arguments[contexts:]
        if name in STEP_BY_STEP:
            value = budget.steps(value) if price is None else list(budget.steps(value))
        if price is not None:
            budget.charge(1 + price(value, *others, **named) // 16)
        return function(*arguments[:contexts], value, *others, **named)
    return paid


def _format_price(text: Any, *values: Any, **named: Any) -> int:
    """Widths and precisions in the text, those given as values (`%*d`), and every value for every place."""
    widths = [int(digits[:12]) for digits in re.findall("[0-9]+", str(text))]
    starred = [abs(value) for value in values if isinstance(value, int)] if "*" in str(text) else []
    longest = max((len(str(value)) for value in (*values, *named.values())), default=0)
    return sum(widths) + sum(starred) + str(text).count("%") * longest


def _sum_price(values: Any, attribute: Any = None, start: Any = 0) -> int:
    if not isinstance(start, int | float):
        raise ValueError("sum: found a start that is no number; accepted: numbers are summed up")
    return 0


PRICES: Mapping[str, Callable[..., int]] = {
    "batch": lambda values, linecount, fill_with=None: 0 if fill_with is None else 16 * max(linecount, 0),
    "center": lambda text, width=80: max(width, 0),
    "format": _format_price,
    "indent": lambda text, width=4, first=False, blank=False: (
        (str(text).count("\n") + 1) * (len(width) if isinstance(width, str) else max(width, 0))),
    "join": lambda values, d="", attribute=None: len(values) * len(str(d)),
    "replace": lambda text, old, new, count=None: str(text).count(str(old)) * len(str(new)),
    "round": lambda value, precision=0, method="common": 0 * int(rounded(0.0, precision)),
    "slice": lambda values, slices, fill_with=None: 16 * max(slices, 0),
    "sum": _sum_price,
    "tojson": lambda value, indent=None: len(str(value)) * DEPTH * max(indent or 0, 0),
    "wordwrap": lambda text, width=79, break_long_words=True, wrapstring=None, break_on_hyphens=True: (
        (str(text).count("\n") + 1 + len(str(text)) // max(width, 1)) * len(wrapstring or "\n")),
}
"""Filter -> its price in characters, by the same arguments."""


def _guard(node: Any, environment: _Environment) -> Any:
    """Rewrites a syntax tree in place so that loop steps and growing values are charged."""
    def through(name: str, inner: Any) -> nodes.Expr:
        return nodes.Filter(inner, name, [], [], None, None, lineno=inner.lineno, environment=environment)

    def rewritten(part: Any) -> Any:
        return _guard(part, environment) if isinstance(part, nodes.Node) else part

    for name, value in list(node.iter_fields()):
        setattr(node, name, [rewritten(part) for part in value] if isinstance(value, list) else rewritten(value))
    if isinstance(node, nodes.Output):
        node.nodes = [nodes.Const(part.data, lineno=part.lineno, environment=environment)
                      if isinstance(part, nodes.TemplateData) else part for part in node.nodes]
    if isinstance(node, nodes.For):
        node.iter = through("_steps", node.iter)
    if isinstance(node, nodes.Concat):
        node.nodes = [through("_weighed", part) for part in node.nodes]
    if isinstance(node, nodes.Filter) and node.node is not None:
        node.node = through("_weighed", node.node)
    return through("_weighed", node) if isinstance(node, _PAID) else node


# Marks of lines.

_MARK = re.compile("\x02([0-9]{0,9}):?([^\x03\n]*)\x03")


def _mark(line: int, file: str = "") -> str:
    """The mark of a line; without a file it belongs to the template that is rendered."""
    return f"\x02{line}:{file}\x03"


def marked(rendered: Rendered) -> str:
    """The text with the marks of its lines, to be inserted into the output of another template."""
    pairs = zip(rendered.text.split("\n"), rendered.lines, strict=True)
    return "\n".join(f"{text}{_mark(line, file)}" for text, (file, line) in pairs)


def _mark_lines(node: nodes.Node) -> None:
    """Puts a mark before each newline of the template's text, except in text that is captured, not output."""
    if isinstance(node, nodes.Macro | nodes.AssignBlock):
        return
    if isinstance(node, nodes.TemplateData):
        lines = node.data.split("\n")
        marks = (_mark(node.lineno + number) + "\n" for number in range(len(lines) - 1))
        node.data = "".join(text + mark for text, mark in zip(lines, [*marks, ""], strict=True))
    for child in node.iter_child_nodes():
        _mark_lines(child)


def _unmarked(text: str, file: str) -> Rendered:
    """Takes the marks out; a line without one (of a value of several lines) belongs to the next mark."""
    def places(line: str) -> list[tuple[str, int]]:
        return [(mark[2] or file, int(mark[1] or 0)) for mark in _MARK.finditer(line)]

    lines = text.split("\n")
    found: list[tuple[str, int]] = []
    before = places(lines[-2]) if len(lines) > 1 else []
    place = (file, before[-1][1] + 1 if before else 1)
    for line in reversed(lines):
        place = next(iter(places(line)), place)
        found.append(place)
    clean = _MARK.sub("", text)
    if len(clean) > MAX_OUTPUT:
        raise Where(file).error(f"the template's output has {len(clean)} characters", f"at most {MAX_OUTPUT}")
    return Rendered(clean, tuple(reversed(found)))


def _raise_template_error(error: Exception, file: str, names: Sequence[str]) -> NoReturn:
    """The SpecError for whatever went wrong in a template, at the innermost line of that template."""
    line = getattr(error, "lineno", None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, RecursionError | MemoryError | SyntaxError):
        line, reason = None, "too deeply nested"
    undefined = re.match(r"'(\w+)' is undefined", reason)
    if undefined:
        reason = f'the name "{undefined[1]}" is not defined{nearest(undefined[1], names)}; accepted: {listed(names)}'
    unknown = re.match(r"No filter named '(\w+)'", reason)
    if unknown:
        reason = f'there is no filter "{unknown[1]}"{nearest(unknown[1], NAMES)}; accepted: {listed(NAMES)}'
    raise Where(file, line).error(f"template: {reason}") from None
