"""Networks whose tensors have bits of their own: in a file, by an argument, in fused groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from small_spaces import small_network

from fadiff_mapper import FadiffError, NetworkOptions, load, load_network, map_network, save_network
from fadiff_mapper.inputs.load import read_document
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.network.network_bound import in_words

DESIGN = "bundled:arch/gemmini_small"


def design_of_bytes() -> Map:
    """The design with accumulators of one byte."""
    document = read_document(DESIGN)
    accumulator = next(node for node in document["architecture"]["nodes"] if node["name"] == "Accumulator")
    accumulator["attributes"] |= {"width": 8, "datawidth": 8}
    return document


def test_a_network_file_keeps_bits(tmp_path: Path) -> None:
    bits = {"Weights": {"bits": 4, "scale": 8, "per": 32}, "Outputs": {"bits": 8, "partial": 32}}
    save_network(small_network(tmp_path), tmp_path / "plain.yaml")
    save_network(load_network(tmp_path / "plain.yaml", bits=bits), tmp_path / "packed.yaml")
    shapes = yaml.safe_load((tmp_path / "packed.yaml").read_text())["workload"]["shapes"]
    assert [shape["bits"] for shape in shapes] == [bits] * 2
    packed = load_network(tmp_path / "packed.yaml")
    assert [str(space.bits.element) for node in packed.layers if node.layer
            for space in node.layer.problem.dataspaces if space.bits] == ["17/4", "8"] * 3
    plain = load_network(tmp_path / "packed.yaml", bits={"Weights": 8, "Outputs": 8})
    assert load_network(tmp_path / "plain.yaml", bits={"Weights": 8, "Outputs": 8}).nodes == plain.nodes
    with pytest.raises(FadiffError, match=r'^bits: Wights: unknown data space "Wights" \(did you mean "Weights"\?\)'):
        load_network(tmp_path / "plain.yaml", bits={"Wights": 4})


def test_a_plan_with_the_bits_of_the_words_is_the_plan_without(tmp_path: Path) -> None:
    network, options = small_network(tmp_path), NetworkOptions(seed=1)
    save_network(network, tmp_path / "network.yaml")
    packed = load_network(tmp_path / "network.yaml", bits={"Weights": 8, "Inputs": 8, "Outputs": 8})
    one, other = (map_network(each, design_of_bytes(), options) for each in (network, packed))
    assert one.groups
    assert (one.stats.energy_pj, one.stats.cycles) == (other.stats.energy_pj, other.stats.cycles)
    assert one.bound == pytest.approx(other.bound, rel=1e-9)


@pytest.mark.parametrize(("bits", "whole"), [
    ({}, True), ({"Weights": 8, "Inputs": 8, "Outputs": 8}, True), ({"Weights": 4}, False), ({"Inputs": 16}, False),
    ({"Outputs": {"bits": 8, "partial": 32}}, True), ({"Outputs": {"bits": 8, "partial": 16}}, False)])
def test_bounds_on_groups_take_elements_that_are_words(bits: dict[str, object], whole: bool, tmp_path: Path) -> None:
    """Accumulators have words of 32 bits, in which sums of 16 take no whole word; Scratchpad and DRAM bytes."""
    save_network(small_network(tmp_path), tmp_path / "network.yaml")
    layers = load_network(tmp_path / "network.yaml", bits=bits).layers
    design = load(DESIGN, "bundled:layers/resnet18/conv3x3_64_64_56_s1")
    assert {in_words(replace(design, problem=node.layer.problem), [design.arch.level_names().index("Scratchpad")])
            for node in layers if node.layer} == {whole}


def test_narrow_weights_are_cheaper_in_layers_and_in_groups(tmp_path: Path) -> None:
    save_network(small_network(tmp_path), tmp_path / "network.yaml")
    plans = [map_network(load_network(tmp_path / "network.yaml", bits={"Weights": bits, "Inputs": 8, "Outputs": 8}),
                         DESIGN) for bits in (8, 4)]
    wide, narrow = (plan.stats.edp for plan in plans)
    assert all(plan.groups and plan.bound is not None for plan in plans)
    assert plans[1].bound <= narrow < wide
