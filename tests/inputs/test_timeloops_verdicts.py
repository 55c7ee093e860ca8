"""Rare inputs: what the real `timeloop-model` reads is read with equal numbers, and what it rejects is an error.

The tool's answers are recorded. Where an input does not say what its author meant, only a lenient reading takes it.
"""

from __future__ import annotations

import copy
import gzip
import json
from functools import cache
from pathlib import Path

import pytest
from recorded_cases import Json

from fadiff_mapper import evaluate, load
from fadiff_mapper.timeloop.compare_answers import compared, differences

RECORDED = Path(__file__).parents[1] / "recorded" / "verdicts" / "verdicts.jsonl.gz"

READ = ("fixed-structured", "hyphenated-sparse-keys", "no-coalesce-outermost")
"""Inputs that every reading takes."""


@cache
def verdicts() -> dict[str, Json]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return {line["id"]: line for line in map(json.loads, lines)}


def document(name: str) -> Json:
    return copy.deepcopy(verdicts()[name]["doc"])


@pytest.mark.parametrize("name", READ)
def test_what_timeloop_reads_has_its_numbers(name: str) -> None:
    assert list(differences(verdicts()[name]["result"], compared(evaluate(load(document(name)))))) == []
