"""Tables as CSV text whose words no spreadsheet program takes for formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Beginnings of cells that spreadsheet programs run as formulas; the list is OWASP's (CSV injection)."""


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV with a heading, all lines ended.

    An apostrophe stands in front of a word that would begin a formula: spreadsheet programs take it for the mark of a
    text. Numbers stay as they are, with all their digits.

    Args:
        columns: The heading.
        rows: The cells of each row; None is an empty one.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = value.replace("\r", " ")  # Python before 3.13 does not quote it, and readers take it for the end of a row
    return f"'{word}" if value.startswith(FORMULA) else word
