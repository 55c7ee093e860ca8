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
from sparse_inputs import full_scores

from fadiff_mapper import InvalidMapping, evaluate, load
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.timeloop.verify import compared, differences

RECORDED = Path(__file__).parents[1] / "recorded" / "verdicts" / "verdicts.jsonl.gz"

READ = ("fixed-structured", "hyphenated-sparse-keys", "no-coalesce-outermost", "hypergeometric-131072",
        "skipping-in-time-and-space", "band-wider-than-matrix")
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


def test_words_of_a_sparse_output_that_are_never_touched_are_refused() -> None:
    """Timeloop ends on an assertion before it looks at anything sparse; the compiled scores refuse the mapping, too."""
    assert "peer_accesses" in verdicts()["sparse-untouched-output"]["error"]
    spec = load(document("sparse-untouched-output"))
    with pytest.raises(InvalidMapping, match="words of an output's partition are never touched"):
        evaluate(spec)
    task = mapping_task(spec)
    assert task.sparse is not None and spec.mapping is not None
    nest = pack([spec.mapping], spec.problem)
    assert not task.sparse.score(nest).legal.any()
    assert not full_scores(task.sparse, nest).legal.any()
