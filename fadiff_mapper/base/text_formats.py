"""Results as text: CSV whose words no spreadsheet takes for formulas, JSON, and HTML tables with exact numbers."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Beginnings of cells that spreadsheet programs run as formulas; the list is OWASP's (CSV injection)."""


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV with a heading, all lines ended; None is an empty cell.

    An apostrophe precedes a word that would begin a formula: spreadsheet programs take it for the mark of a
    text. Numbers stay as they are, with all their digits.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, columns))
    writer.writerows(map(_csv_cell, row) for row in rows)
    return text.getvalue()


def _csv_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = value.replace("\r", " ")  # Python before 3.13 does not quote it, and readers take it for the end of a row
    return f"'{word}" if value.startswith(FORMULA) else word


# A notebook asks an object for `_repr_html_` and shows what comes back. Names in these tables come from input files,
# so all of them pass through `html.escape`; no style sheet and no script goes with a table.

def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A `table` element with a caption, a row of headings and one row per entry, every text escaped.

    Integers and floating-point numbers are aligned to the right, each in a `data` element whose `value` is the exact
    number; None is an empty cell; everything else is text.
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


def json_text(content: Any, ascii_only: bool = False) -> str:
    """The content (nested plain values) as JSON on several lines, without a final newline.

    Numbers that are not finite become null, because JSON has no infinity; tuples become lists. With `ascii_only` other
    characters than printable ASCII are written by number, for streams of any encoding.
    """
    try:
        text = json.dumps(content, indent=1, ensure_ascii=ascii_only, allow_nan=False)
    except ValueError:  # some number is not finite
        text = json.dumps(_finite(content), indent=1, ensure_ascii=ascii_only)
    return text.replace("\x7f", "\\u007f")  # a control character that JSON permits in ASCII


def _finite(value: Any) -> Any:
    """The value with null for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
