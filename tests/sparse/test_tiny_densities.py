"""Densities so small that every tile is empty, as far as doubles tell: numbers that are numbers, or an error line."""

from __future__ import annotations

import copy
import json

import pytest
from fuzz.sparse_doors import sparse_inputs

from fadiff_mapper import FadiffError, load
from fadiff_mapper.model.evaluate_spec import evaluate


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("density", [0, 1e-30, 1e-17, 1e-9])
def test_nearly_no_word_is_evaluated_or_refused(density: float) -> None:
    evaluated = 0
    for design in copy.deepcopy(sparse_inputs()[::12]):
        design["problem"]["instance"]["commonDensity"] = density
        try:
            text = json.dumps(evaluate(load(design, energy="bundled")).to_dict())
        except FadiffError as error:
            assert len(str(error)) < 1000
        else:
            assert "NaN" not in text  # energy per compute is infinite where none is left, as Timeloop prints it
            evaluated += 1
    assert evaluated > 0
