"""The templates of pages, which share drawings, legends and styles.

They run in jinja's sandbox with escaping on, because names come from input files.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fadiff_mapper.output.network_report.rounded_units import DisplayUnit
from fadiff_mapper.output.network_report.svg import svg


def number(value: float, unit: DisplayUnit) -> Markup:
    """A number in a unit, with its exact value; a macro takes three times as long for the thousands of a table."""
    return Markup(f'<data value="{value}">{unit.number(value)}</data>')


@cache
def page_template(name: str) -> Template:
    """A page's template; a name that is misspelt in it raises instead of printing nothing.

    Args:
        name: Folder and file below `fadiff_mapper/output`, such as "network_report/network.html.jinja".
    """
    environment = Environment(
        loader=PackageLoader("fadiff_mapper", "output"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters["svg"] = svg
    environment.globals["number"] = number
    return environment.get_template(name)
