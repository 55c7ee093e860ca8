"""DOSA's formulas as a source of energies."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fadiff_mapper import evaluate, load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs.spec.spec import Spec


def gemmini(side: int, accumulator_kb: int, scratchpad_kb: int, **scratchpad: Any) -> Spec:
    """A Gemmini, by the parameters of DOSA's space; words of 8 bits, 32 in the accumulator."""
    local = {
        "DRAM": ("DRAM", 1, {"word_bits": 8, "block_size": 8}),
        "Scratchpad": ("SRAM", 1, {"word_bits": 8, "entries": scratchpad_kb * 1024, **scratchpad}),
        "Accumulator": ("SRAM", side, {"word_bits": 32, "entries": accumulator_kb * 256 // side, "meshX": side}),
        "Registers": ("regfile", side ** 2, {"word_bits": 8, "entries": 1, "meshX": side}),
        "MAC": ("intmac", side ** 2, {"word_bits": 8, "meshX": side})}
    components = [{"name": f"{name}[0..{count - 1}]" if count > 1 else name, "class": kind, "attributes": attributes}
                  for name, (kind, count, attributes) in local.items()]
    problem = yaml.safe_load(find("problems/conv").read_text())["problem"]
    return load({"architecture": {"version": "0.4", "subtree": [{"name": "system", "local": components}]},
                 "problem": problem}, energy="dosa")


@pytest.mark.parametrize(("side", "accumulator_kb", "scratchpad_kb"), [(16, 32, 128), (4, 1, 8), (128, 1024, 1024)])
def test_a_gemmini_has_dosas_energies_per_word(side: int, accumulator_kb: int, scratchpad_kb: int) -> None:
    spec = gemmini(side, accumulator_kb, scratchpad_kb)
    energies = {name: spec.tables.actions.get(name, {}) for name in (*spec.arch.level_names(), "MAC")}
    assert energies["MAC"] == {"compute": 0.5608}
    per_word = {"Registers": 0.48746172, "Accumulator": 1.94 + 0.1005 * accumulator_kb / side,
                "Scratchpad": 0.49 + 0.02513 * scratchpad_kb}
    for name, energy in per_word.items():
        assert energies[name] == pytest.approx({"read": energy, "write": energy, "update": energy, "leak": 0})
    assert energies["DRAM"]["read"] == 8 * 100  # eight words at a time


def test_what_the_architecture_states_stays() -> None:
    spec = gemmini(16, 32, 128, vector_access_energy=3.5)
    assert not spec.tables.actions.get("Scratchpad", {}) and spec.tables.actions.get("Accumulator", {})


def test_results_name_the_formula_and_have_no_area() -> None:
    spec = load(str(find("arch/gemmini_small")), str(find("layers/resnet18/conv3x3_64_64_56_s1")),
                str(find("mappings/gemmini_small")), energy="dosa")
    stats = evaluate(spec).to_dict()
    assert stats["energy_source"]["Accumulator"] == "DOSA's formula for an accumulator of 8 KB, array of side 16"
    assert stats["energy_source"]["Scratchpad"] == "DOSA's formula for a scratchpad of 8 KB"
    assert stats["area_mm2"] == 0
