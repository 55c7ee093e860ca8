"""Searches count the legal mappings among those that they evaluate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from small_specs import QUICK, product

from fadiff_mapper import load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.gradient.layer_descent import descend
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.search.exhaustive import nests, whole_space
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_many import search_all

GRADIENT = replace(QUICK, effort=replace(QUICK.schedule, descent=partial(descend, restarts=12, steps=6)))


def test_an_enumeration_counts_every_legal_mapping_once() -> None:
    task = mapping_task(product())
    [everything] = nests(whole_space(task.space), 1 << 16)
    scores = score(task.layer, everything)
    [outcome] = search_all([task], SearchOptions(method="exhaustive"))
    assert (outcome.evaluations, outcome.legal_evaluations) == (scores.legal.size, np.count_nonzero(scores.legal))
    assert 0 < outcome.legal_evaluations < outcome.evaluations


@pytest.mark.parametrize("gradient", [False, True])
def test_the_first_legal_mapping_of_a_search_is_its_first_legal_evaluation(gradient: bool) -> None:
    spec = load(find("arch/gemmini_small"), find("layers/resnet18/conv3x3_64_64_56_s1"))
    [outcome] = search_all([mapping_task(spec)], GRADIENT if gradient else QUICK)
    before = [step.legal_evaluations for step in outcome.history if not step.legal]
    after = [step.legal_evaluations for step in outcome.history if step.legal]
    assert set(before) <= {0} and after == sorted(after)
    assert after[0] >= 1 and after[-1] <= outcome.legal_evaluations < outcome.evaluations
    if not gradient:    # the descent evaluates batches, of which the best counts
        assert after[0] == 1
