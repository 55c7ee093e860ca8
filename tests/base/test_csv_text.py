"""CSV: every cell comes back, and no word of it is a formula of a spreadsheet program."""

from __future__ import annotations

import csv
import io

import pytest

from fadiff_mapper.base.text_formats import csv_text


def test_numbers_keep_their_digits_and_words_are_quoted_where_they_must_be() -> None:
    text = csv_text(["name", "energy", "left"], [["a,b", 0.1 + 0.2, None], ['say "x"', -3, True]])
    assert list(csv.reader(io.StringIO(text))) == [
        ["name", "energy", "left"], ["a,b", "0.30000000000000004", ""], ['say "x"', "-3", "True"]]
    assert text.endswith("\n")


@pytest.mark.parametrize("word", ["=1+1", "=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1"])
def test_a_word_that_would_be_a_formula_is_marked_as_text(word: str) -> None:
    heading, row = csv.reader(io.StringIO(csv_text([word], [[word]]), newline=""))
    assert heading == row == ["'" + word.replace("\r", " ")]
