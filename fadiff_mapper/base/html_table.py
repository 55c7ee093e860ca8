"""Tables of HTML for notebooks: every text escaped, every number with its exact value.

A notebook asks an object for `_repr_html_` and shows what comes back. Names in these tables come from input files, so
all of them pass through `html.escape`; no style sheet and no script goes with a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A `table` element with a caption, a row of headings and one row per entry.

    Args:
        title: The caption.
        columns: Headings, one per column.
        rows: Cells, one per column. Integers and floating-point numbers stand to the right, each in a `data` element
            whose `value` is the exact number; None is an empty cell; everything else is text.

    Returns:
        HTML in which every text is escaped.
    """
    head = "".join(f'<th style="text-align: left">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (f'<table><caption style="text-align: left">{escape(title)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def paragraph(text: str) -> str:
    """A `p` element with an escaped text."""
    return f"<p>{escape(text)}</p>"


def _cell(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
        return f'<td style="text-align: right"><data value="{value!r}">{shown}</data></td>'
    return f'<td style="text-align: left">{"" if value is None else escape(str(value))}</td>'
