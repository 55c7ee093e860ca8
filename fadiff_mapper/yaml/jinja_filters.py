"""The filters of Jinja itself, priced so that none yields much more than its operands without paying for it.

Their operands and results are weighed by the sandbox around them. Left to be priced here are filters whose work is a
product of operands, or follows from the size of a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

from jinja2 import Environment
from jinja2.filters import FILTERS
from jinja2.nodes import EvalContext
from jinja2.runtime import Context

from fadiff_mapper.yaml.bounded_arithmetic import rounded

LEFT_OUT = ("attr", "random", "urlize")
"""Filters of Jinja's that do not exist here: Python's attributes, chance, and links have no place in input files."""

NAMES = tuple(sorted(name for name in FILTERS if name not in LEFT_OUT))
"""The filters that exist here."""

STEP_BY_STEP = ("join", "map", "select", "reject", "selectattr", "rejectattr")
"""Filters that do work for each value on its way; each value is charged, and the clock is looked at."""

DEPTH = 50
"""Levels of nesting that an indented JSON text is priced for; YAML is limited to as many."""

Charge = Callable[[int], None]
"""Spends units of a template's budget, each good for 16 characters or one element. Raises beyond the limits."""
Steps = Callable[[Iterable[Any]], Iterator[Any]]
"""Passes values on one by one and charges each."""


def filters(charge: Charge, steps: Steps) -> dict[str, Callable[..., Any]]:
    """All filters of templates by name.

    Args:
        charge: Spends units of the budget.
        steps: Passes values on one by one and charges each.
    """
    return {name: _priced(FILTERS[name], PRICES.get(name), charge, steps if name in STEP_BY_STEP else None)
            for name in NAMES}


def _priced(function: Callable[..., Any], price: Callable[..., int] | None, charge: Charge,
            steps: Steps | None) -> Callable[..., Any]:
    """The filter that first pays its price, in characters; some filters take a context of Jinja's before the value."""
    @wraps(function)  # takes over Jinja's own mark of filters that want a context
    def paid(*arguments: Any, **named: Any) -> Any:
        contexts = 1 if isinstance(arguments[0], EvalContext | Environment | Context) else 0
        value, *others = arguments[contexts:]
        if steps is not None:
            value = steps(value) if price is None else list(steps(value))
        if price is not None:
            charge(1 + price(value, *others, **named) // 16)
        return function(*arguments[:contexts], value, *others, **named)
    return paid


def _lines(text: str) -> int:
    return text.count("\n") + 1


def _batch(values: Any, linecount: int, fill_with: Any = None) -> int:
    return 0 if fill_with is None else 16 * max(linecount, 0)


def _center(text: Any, width: int = 80) -> int:
    return max(width, 0)


def _format(text: Any, *values: Any, **named: Any) -> int:
    """Widths and precisions in the text, those given as values (`%*d`), and every value for every place."""
    widths = [int(digits[:12]) for digits in re.findall("[0-9]+", str(text))]
    starred = [abs(value) for value in values if isinstance(value, int)] if "*" in str(text) else []
    longest = max((len(str(value)) for value in (*values, *named.values())), default=0)
    return sum(widths) + sum(starred) + str(text).count("%") * longest


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> int:
    return _lines(str(text)) * (len(width) if isinstance(width, str) else max(width, 0))


def _join(values: Any, d: str = "", attribute: Any = None) -> int:
    return len(values) * len(str(d))


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> int:
    return str(text).count(str(old)) * len(str(new))


def _round(value: Any, precision: int = 0, method: str = "common") -> int:
    rounded(0.0, precision)
    return 0


def _slice(values: Any, slices: int, fill_with: Any = None) -> int:
    return 16 * max(slices, 0)


def _sum(values: Any, attribute: Any = None, start: Any = 0) -> int:
    if not isinstance(start, int | float):
        raise ValueError("sum: found a start that is no number; accepted: numbers are summed up")
    return 0


def _tojson(value: Any, indent: int | None = None) -> int:
    return len(str(value)) * DEPTH * max(indent or 0, 0)


def _wordwrap(text: str, width: int = 79, break_long_words: bool = True, wrapstring: str | None = None,
              break_on_hyphens: bool = True) -> int:
    return (_lines(str(text)) + len(str(text)) // max(width, 1)) * len(wrapstring or "\n")


PRICES: Mapping[str, Callable[..., int]] = {
    "batch": _batch, "center": _center, "format": _format, "indent": _indent, "join": _join, "replace": _replace,
    "round": _round, "slice": _slice, "sum": _sum, "tojson": _tojson, "wordwrap": _wordwrap,
}
"""Filter -> its price in characters, by the same arguments."""
