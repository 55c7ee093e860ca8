"""Fan-outs of more instances than can be counted one by one: a sentence, in no time and no memory."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest
from kernel_parts import scores_of

from fadiff_mapper import FadiffError, Spec, load
from fadiff_mapper.model.evaluate import evaluate_nest, score
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.model.legality import MOST_RECEIVERS
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import prepare_layer


def window_over(instances: int, units: int, mesh: int) -> Spec:
    """A sliding window over so many instances side by side, of `units` in the hardware, `mesh` of them in a row."""
    attributes = {"word_bits": 16, "meshX": mesh}
    local: list[dict[str, Any]] = [
        {"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16}},
        {"name": f"Buffer[0..{units - 1}]", "class": "SRAM", "attributes": {"entries": 64, **attributes}},
        {"name": f"MAC[0..{units - 1}]", "class": "mac", "attributes": attributes}]
    return load({
        "architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": local}]},
        "problem": {"shape": {"name": "slide", "dimensions": ["P", "R"], "data_spaces": [
            {"name": "Inputs", "projection": [[["P"], ["R"]]]}, {"name": "Weights", "projection": [[["R"]]]},
            {"name": "Outputs", "projection": [[["P"]]], "read_write": True}]}, "instance": {"P": instances, "R": 3}},
        "mapping": [{"target": "DRAM", "type": "temporal", "factors": "P1 R1", "permutation": "PR"},
                    {"target": "DRAM", "type": "spatial", "factors": f"P{instances} R1", "permutation": "PR",
                     "split": 0 if mesh == 1 else 2},
                    {"target": "Buffer", "type": "temporal", "factors": "P1 R3", "permutation": "PR"}]},
        energy="built-in")


@pytest.mark.parametrize("instances", [2 * MOST_RECEIVERS, 1 << 31, 1 << 40])
def test_more_receivers_than_the_limit_are_refused_at_once(instances: int) -> None:
    spec = window_over(instances, instances, instances)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FadiffError, match=f"DRAM: spatial loops of {instances} instances; accepted: at most 1048576"):
        evaluate(spec)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100 * 1024


def test_timeloops_own_limits_are_named_first() -> None:
    with pytest.raises(FadiffError, match="mapped max Arithmetic instances 2097152 exceeds hardware instances 16"):
        evaluate(window_over(2 * MOST_RECEIVERS, 16, 4))


def test_a_long_column_of_receivers_is_evaluated() -> None:
    assert evaluate(window_over(1 << 16, 1 << 16, 1)).cycles == 3


@pytest.mark.parametrize("instances", [MOST_RECEIVERS, 2 * MOST_RECEIVERS, 1 << 40])
def test_the_compiled_score_has_the_same_limit(instances: int) -> None:
    spec = window_over(instances, instances, instances)
    assert spec.mapping is not None
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    nest = pack([spec.mapping], spec.problem)
    compiled, arrays = score(layer, nest), scores_of(evaluate_nest(layer, nest))
    assert compiled.legal == arrays.legal == (instances <= MOST_RECEIVERS)
    np.testing.assert_array_equal(compiled.excess, arrays.excess)
