"""Areas: estimated within the errors that are stated, given ones honoured, each with its source."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fadiff_mapper import evaluate, load
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.inputs.energy.estimated_tables import estimated, figures, primitives, sram_regressor
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.output.stats_txt import stats_txt


def document(buffer: dict[str, Any] | None = None, mac: dict[str, Any] | None = None, **buffer_keys: Any,
             ) -> dict[str, Any]:
    """DRAM, one buffer of 64 words, four units of 16 bits at 45 nm and 1 ns."""
    local = [{"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16}},
             {"name": "Buffer", "class": "SRAM", "attributes": {"word_bits": 16, "depth": 64, "width": 16,
                                                                **(buffer or {})}, **buffer_keys},
             {"name": "MAC[0..3]", "class": "intmac", "attributes": {"word_bits": 16, **(mac or {})}}]
    around = {"technology": "45nm", "global_cycle_seconds": 1e-9}
    return {"architecture": {"version": "0.4", "subtree": [{"name": "chip", "attributes": around, "local": local}]},
            "problem": yaml.safe_load(find("problems/matmul").read_text())["problem"]}


def art(**areas_um2: float) -> dict[str, Any]:
    """A section of areas."""
    return {"ART": {"version": "0.4", "tables": [{"name": f"chip.{name}", "area": area}
                                                 for name, area in areas_um2.items()]}}


ERT = {"ERT": {"version": "0.4", "tables": [
    {"name": f"chip.{name}", "actions": [{"name": action, "energy": 9.0}
                                         for action in ("read", "write", "update", "compute")]}
    for name in ("DRAM", "Buffer", "MAC")]}}


def each(spec: Spec) -> dict[str, float]:
    """um^2 of an instance by component."""
    return {name: area.each for name, area in areas(spec.arch, spec.tables).items()}


# Estimates.

@pytest.mark.parametrize("design", designs())
def test_estimated_areas_of_bundled_designs_lie_near_what_accelergy_says(design: str) -> None:
    """SRAM by the network's worst error; register files and arithmetic, at the clock of the design, by their digits."""
    spec = load(str(find(f"arch/{design}")), str(find("problems/conv")))
    guess, recorded = (areas(spec.arch, tables) for tables in (estimated(spec.arch, Tables()), spec.tables))
    for name, part in primitives(spec.arch).items():
        slack = sram_regressor().worst["area_um2"] if part.kind == "SRAM" else 1e-5
        assert guess[name].each == pytest.approx(recorded[name].each, rel=slack)


def test_every_component_gets_an_area_and_a_source_of_its_own() -> None:
    spec = load(document(), energy="estimate")
    dram, buffer, mac = areas(spec.arch, spec.tables).values()
    table = figures("intmac")
    unit, = table["area_um2"][(table["cycle_ns"] == 1) & (table["width_bits"] == 16)]
    assert mac.total == pytest.approx(4 * unit, rel=1e-5)
    assert (dram.total, dram.source) == (0, "none: DRAM is another chip")
    assert buffer.source.startswith("estimate: network fitted to CACTI, ")
    assert "mean error of areas on held-out figures" in buffer.source
    assert mac.source == "estimate: figures of Aladdin for intmac of 16 bits, 45 nm"


@pytest.mark.parametrize(("attribute", "value"), [("depth", 128), ("n_rw_ports", 2), ("technology", "90nm")])
def test_a_larger_buffer_has_a_larger_area(attribute: str, value: Any) -> None:
    plain, larger = (areas((spec := load(document(own), energy="estimate")).arch, spec.tables)["Buffer"].each
                     for own in ({}, {attribute: value}))
    assert larger > 1.2 * plain


def test_the_scale_is_heeded_and_a_cluster_shares_one_memory() -> None:
    def buffer(*arguments: Any, **keys: Any) -> float:
        spec = load(document(*arguments, **keys), energy="estimate")
        return areas(spec.arch, spec.tables)["Buffer"].total
    assert buffer(area_scale=3) == pytest.approx(3 * buffer())
    shared = {"depth": 64, "width": 64, "block_size": 2, "cluster_size": 2, "instances": 2}
    assert buffer(shared, {"instances": 4}) == pytest.approx(
        buffer({"depth": 64, "width": 64, "block_size": 4}, {"instances": 4}))


# What the user states.

@pytest.mark.parametrize("energy", ["auto", "estimate"])
def test_an_area_in_the_input_counts_and_the_others_are_estimated(energy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    spec = load({**document(), **art(Buffer=1234.5)}, energy=energy)
    _, buffer, mac = areas(spec.arch, spec.tables).values()
    assert (buffer.each, buffer.source) == (1234.5, "ART in the input")
    assert mac.each > 1000 and mac.source.startswith("estimate: ")


def test_an_area_in_the_input_takes_the_place_of_a_recorded_one() -> None:
    design = [str(find("arch/gemmini_small")), str(find("problems/conv"))]
    text = yaml.safe_dump(art(Scratchpad=77.0))
    recorded = load(*design)
    spec = load({**recorded.literal, **yaml.safe_load(text)}, energy="bundled")
    found = areas(spec.arch, spec.tables)
    assert each(spec) == each(recorded) | {"Scratchpad": 77.0}
    assert found["Scratchpad"].source == "ART in the input"
    assert found["Accumulator"].source == "bundled with gemmini_small"


@pytest.mark.parametrize(("sections", "area", "source"), [
    ({}, 0.0, "none: Timeloop's built-in areas are 0"), (art(MAC=5), 5.0, "ART in the input")])
def test_with_an_ert_of_the_user_areas_are_timeloops_own(sections: dict[str, Any], area: float, source: str) -> None:
    """As in Timeloop, a component that the ART lacks has no area, and nothing is made up beside the user's tables."""
    spec = load({**document(), **ERT, **sections}, energy="auto")
    assert each(spec) == {"DRAM": 0, "Buffer": 0, "MAC": area}
    assert areas(spec.arch, spec.tables)["MAC"].source == source
    completed = load({**document(), **ERT, **sections}, energy="estimate")
    assert each(completed)["Buffer"] > 0


def test_an_area_that_the_architecture_states_is_not_estimated() -> None:
    spec = load(document({"cluster_area": 50}, {"area": 7}), energy="estimate")
    assert each(spec) == {"DRAM": 0, "Buffer": 50, "MAC": 7}
    _, buffer, mac = areas(spec.arch, spec.tables).values()
    assert buffer.source == mac.source == "area in the architecture"


# Results.

def test_results_have_areas_by_component_with_their_sources() -> None:
    spec = load(str(find("arch/gemmini_small")), str(find("layers/resnet18/conv3x3_64_64_56_s1")),
                str(find("mappings/gemmini_small")), energy="estimate")
    stats = evaluate(spec)
    content = stats.to_dict()
    assert list(content["areas_um2"]) == [level.name for level in reversed(spec.arch.levels)] + ["MACC"]
    assert content["area_mm2"] == pytest.approx(sum(content["areas_um2"].values()) / 1e6) and content["area_mm2"] > 0.1
    assert content["area_source"]["Scratchpad"].startswith("estimate: ")
    per_instance = each(spec)
    text = stats_txt(spec, stats)
    assert f": {per_instance['Scratchpad']:.2f} um^2" in text
    assert f"Area (total)            : {256 * per_instance['MACC']:.2f} um^2" in text


def test_a_sparse_design_has_the_areas_of_the_dense_one() -> None:
    dense = {**document(), **ERT, **art(Buffer=10.0, MAC=20.0), "mapping": [
        {"target": "DRAM", "type": "temporal", "factors": "M=0 N=0 C=0", "permutation": "MNC"},
        {"target": "Buffer", "type": "temporal", "factors": "M=1 N=1 C=1", "permutation": "MNC"}]}
    shape = dense["problem"]["shape"]
    sparse = {**dense, "problem": {**dense["problem"], "instance": {**dense["problem"]["instance"], "densities": {
        shape["data_spaces"][0]["name"]: {"distribution": "fixed_structured", "density": 0.5}}}}}
    found = [evaluate(load(tree)) for tree in (dense, sparse)]
    assert found[0].area_mm2 == found[1].area_mm2 == pytest.approx(90e-6)
    assert found[0].area_source == found[1].area_source


def test_what_stands_beside_the_first_subtree_is_no_component() -> None:
    """Timeloop does not read `local` there, so anything may stand in it."""
    design = document()
    design["architecture"]["local"] = {"name": "loose"}
    spec = load(design)
    assert "loose" not in areas(spec.arch, spec.tables)


def test_an_empty_subtree_and_attributes_beside_the_first_one_are_no_components() -> None:
    design = document()
    design["architecture"]["attributes"] = 5  # Timeloop does not read them
    inner = design["architecture"]["subtree"][0]
    while inner.get("subtree"):
        inner = inner["subtree"][0]
    inner["subtree"] = None
    spec, same = load(design, strict=False), load(document())
    assert areas(spec.arch, spec.tables) == areas(same.arch, same.tables)
