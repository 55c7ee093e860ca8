"""A v0.4 problem is read into values once, and the architecture of a design once for many problems."""

from __future__ import annotations

from typing import Any

import pytest
from v04_designs import document

from fadiff_mapper import load_network
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs import load as inputs
from fadiff_mapper.inputs.load import with_problem
from fadiff_mapper.inputs.v04 import document as v04
from fadiff_mapper.inputs.yaml.load import load_files
from fadiff_mapper.network.one_design import specs_of


@pytest.mark.parametrize("bundled", [False, True])
def test_the_problem_is_read_once(monkeypatch: pytest.MonkeyPatch, bundled: bool) -> None:
    """Also for a bundled design, whose recorded tables are found by comparing architectures."""
    calls: list[Any] = []
    read = v04.read_problem

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return read(*arguments)

    for module in (v04, inputs):
        monkeypatch.setattr(module, "read_problem", counted)
    tree = load_files([find("arch/gemmini_large"), find("problems/conv")]) if bundled else document()
    spec = inputs.read_spec(tree)
    assert len(calls) == 1
    assert spec.literal["problem"] == read(tree["problem"], tree.at("problem"))[1]


def test_the_architecture_is_read_once_for_all_layers_of_a_network() -> None:
    design = load_files([find("arch/eyeriss_like")])
    network = load_network("bundled:networks/resnet18")
    specs = specs_of(network, design)
    assert len({id(spec.arch) for spec in specs}) == 1
    alone = [inputs.read_spec(with_problem(design, entry.layer.literal), specs[0].files)
             for entry in network.distinct()]
    assert list(specs) == alone
    assert [spec.literal for spec in specs] == [spec.literal for spec in alone]


def test_an_architecture_that_looks_at_the_layer_is_read_for_each() -> None:
    design = load_files([find("arch/gemmini_small")])
    memory = next(node for node in design["architecture"]["nodes"] if "depth" in node.get("attributes", {}))
    memory["attributes"]["depth"] = "512 * spec.problem.instance.C"
    network = load_network("bundled:networks/resnet18")
    specs = specs_of(network, design)
    sizes = {(spec.problem.bounds["C"], *(level.size for level in spec.arch.levels)) for spec in specs}
    assert len({size[0] for size in sizes}) > 1 and len({size[1:] for size in sizes}) == len(sizes)
