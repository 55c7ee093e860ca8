"""Mistakes in a fused input end in one line that says where, what was found and what is accepted."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from fadiff_validation.looptree import evaluate_fused
from fadiff_validation.looptree.fused_input import Affine, bounds, projection
from fused_chains import Size, branch, document, layer, loop, store

from fadiff_mapper import FadiffError
from fadiff_mapper.inputs.yaml.expressions import ExpressionError

Json = dict[str, Any]


def two_layers() -> Json:
    """A valid input: two matrix products, fused over rows."""
    layers = [layer(1, Size(m=2, c=3, p=4)), layer(2, Size(m=2, c=2, p=4))]
    branches = [branch(Random(0), one) for one in layers]
    return document(layers, [store(0, "F1", "F3", "W1", "W2"), store(1, "W1", "W2"), loop("P2", 2),
                             store(1, "F1", "F2"), {"type": "sequential", "branches": branches}])


def changed(path: str, value: Any) -> Json:
    """The valid input with the entry at a dotted path set, or removed where the value is None."""
    result = deepcopy(two_layers())
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    owner: Any = result
    for step in steps:
        owner = owner[step]
    if value is None:
        del owner[last]
    else:
        owner[last] = value
    return result


def test_the_valid_input_is_evaluated() -> None:
    found = evaluate_fused(two_layers()).to_dict()
    assert found["ops"] == {"E1": 24, "E2": 16}
    assert found["accesses"]["DRAM/F1/E1"] == {"reads": 12, "writes": 0}


@pytest.mark.parametrize(("path", "value", "words"), [
    ("problem", None, ["problem", "missing"]),
    ("problem", [], ["problem", "0 layers"]),
    ("problem.0.instance", "0 <= P1 < 4", ["problem[0].instance", "M1", "bound"]),
    ("problem.0.instance", "__import__('os').system('true')", ["problem[0].instance", "accepted"]),
    ("problem.0.shape.data_spaces.0.projection", "[ C1, X1 ]", ["projection", "X1", "accepted: P1"]),
    ("problem.0.shape.data_spaces.0.projection", "[ C1, P1*P1 ]", ["projection", "not affine"]),
    ("problem.0.shape.data_spaces.0.projection", "[ C1, " + "-" * 900 + "P1 ]", ["projection", "nested too deeply"]),
    ("problem.0.shape.data_spaces.0.projection", "[ C1 ]", ["projection", "found 1 expressions"]),
    ("problem.0.shape.data_spaces.0.projection", "[ C1, open('x') ]", ["projection", "not affine"]),
    ("problem.0.shape.data_spaces.2.read_write", None, ["data_spaces", "writes 0 tensors"]),
    ("problem.1.shape.name", "E1", ["E1", "more than once"]),
    ("mapping.type", "tree", ["mapping.type", "accepted: fused"]),
    ("mapping.nodes.2.rank", "P9", ["mapping.nodes[2].rank", "P9", "accepted"]),
    ("mapping.nodes.2.rank", "P1", ["P1", "accepted: ranks of E2"]),
    ("mapping.nodes.2.tile_shape", 0, ["mapping.nodes[2].tile_shape", "found 0", ">= 1"]),
    ("mapping.nodes.2.type", "temporel", ["mapping.nodes[2].type", 'did you mean "temporal"']),
    ("mapping.nodes.3.target", 4, ["mapping.nodes[3].target", "found 4", "0 to 3"]),
    ("mapping.nodes.3.dspace", ["F1", "G2"], ["mapping.nodes[3].dspace[1]", "G2", "accepted"]),
    ("mapping.nodes.3.dspce", ["F1"], ["mapping.nodes[3].dspce", "unknown key"]),
    ("mapping.nodes.3.target", 0, ["F1 is stored twice in one level"]),
    ("mapping.nodes.4", None, ["mapping.nodes", "does not end in a compute node or a split"]),
    ("mapping.nodes.4.branches.1", None, ["no branch computes E2"]),
    ("architecture.nodes", [], ["architecture.nodes", "0 components"]),
    ("ERT.tables.0.actions.0", None, ["DRAM", "no energy for read"]),
])
def test_a_mistake_is_named(path: str, value: Any, words: list[str]) -> None:
    with pytest.raises(FadiffError) as caught:
        evaluate_fused(changed(path, value))
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_too_many_operations_are_refused_before_they_are_enumerated() -> None:
    with pytest.raises(FadiffError, match="accepted: at most"):
        evaluate_fused(changed("problem.1.instance", "0 <= P2 < 100000 and 0 <= M2 < 100000 and 0 <= C2 < 100000"))


def test_a_tile_larger_than_its_rank_is_the_whole_rank() -> None:
    whole = evaluate_fused(changed("mapping.nodes.2.tile_shape", 4)).to_dict()
    assert evaluate_fused(changed("mapping.nodes.2.tile_shape", 10 ** 15)).to_dict() == whole


def test_affine_tuples_are_read_as_isl_writes_them() -> None:
    assert projection("[ C, 2P + 3*(R - 1) ]", ["C", "P", "R"]) == (
        Affine({"C": 1}), Affine({"P": 2, "R": 3}, -3))
    assert bounds("0 <= P <= 3 and 1 <= R and R < 4", ["P", "R"]) == {"P": range(4), "R": range(1, 4)}


@pytest.mark.parametrize("text", ["0 <= P and P < 0", "0 < P", "P", "0 <= P < 2*P", "0 <= P < 4 or P = 5"])
def test_bounds_that_are_not_a_box_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        bounds(text, ["P"])
