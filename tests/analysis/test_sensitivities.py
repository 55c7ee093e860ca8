"""Sensitivities: against the exact model with a changed constant, and against optima found another way."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from fadiff_validation.random_mappings import constrained_nests
from scipy.optimize import minimize_scalar

from fadiff_mapper import load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.search.explanation import sensitivities as analysis
from fadiff_mapper.search.explanation.sensitivities import BANDWIDTHS, sensitivities, shadow_prices

SIDE = 64


@cache
def evaluated(design: str, name: str = "layers/resnet18/conv3x3_64_64_56_s1") -> tuple[PreparedLayer, Evaluation]:
    """A layer, and some legal mappings of it within the constraints."""
    spec = load(find(f"arch/{design}"), find(name))
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    return layer, evaluate_nest(layer, constrained_nests(layer, spec, 2, 1))


@pytest.mark.parametrize("design", ["gemmini_small", "eyeriss_like"])
def test_energies_and_bandwidths_are_those_of_the_exact_model(design: str) -> None:
    """Effects of 0.1 % more of each constant, one constant at a time; cycles are whole, hence the tolerance."""
    layer, found = evaluated(design)
    step, moved = 1e-3, set()
    for row in range(found.nest.batch):
        before = np.log(found.energy[row] * found.cycles[row])
        for one in sensitivities(layer, evaluate_nest(layer, found.nest.take([row]))):
            if one.basis != "fixed mapping":
                continue
            level = layer.arch.level_names().index(one.level) if one.constant != "compute_energy" else None
            constant = np.array(getattr(layer.machine, one.constant), dtype=np.float64)
            constant[level if level is not None else ...] *= 1 + step
            changed = replace(layer, machine=replace(layer.machine, **{one.constant: constant}))
            after = evaluate_nest(changed, found.nest.take([row]))
            slope = float(np.log(after.energy[0] * after.cycles[0]) - before) / np.log1p(step)
            assert one.elasticity == pytest.approx(slope, rel=2e-3, abs=3e-3 if one.constant in BANDWIDTHS else 1e-6)
            moved |= {one.constant} if abs(slope) > 1e-3 else set()
    assert {"read", "update", "compute_energy", "shared_bandwidth" if design == "gemmini_small" else "read"} <= moved


def matmul(capacity: int) -> Spec:
    """A matrix product whose buffer holds a tile of Z, a row of A and a column of B, while K runs outside."""
    prices = {"DRAM": {"read": 100, "write": 100, "update": 100}, "Buffer": {"read": 1, "write": 1, "update": 1},
              "MAC": {"compute": 0.5}}
    return load({
        "architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": [
            {"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16}},
            {"name": "Buffer", "class": "SRAM", "attributes": {"entries": capacity, "word_bits": 16}},
            {"name": "MAC", "class": "mac", "attributes": {"word_bits": 16}}]}]},
        "problem": {"shape": {"name": "product", "dimensions": ["M", "K", "N"], "data_spaces": [
            {"name": "A", "projection": [[["M"]], [["K"]]]}, {"name": "B", "projection": [[["K"]], [["N"]]]},
            {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True}]},
            "instance": {"M": SIDE, "K": SIDE, "N": SIDE}},
        "mapping": [{"target": "DRAM", "type": "temporal", "factors": f"M=16 N=16 K={SIDE}", "permutation": "KMN"},
                    {"target": "Buffer", "type": "temporal", "factors": "M=4 N=4 K=1", "permutation": "MNK"}],
        "ERT": {"version": "0.3", "tables": [
            {"name": f"chip.{name}", "actions": [{"name": key, "energy": value} for key, value in table.items()]}
            for name, table in prices.items()]}})


def textbook_optimum(capacity: float) -> float:
    """Logarithm of the least energy with real tile sides m and n, m + n + m n <= capacity, by hand."""
    macs = SIDE ** 3

    def energy(m: float) -> float:
        n = (capacity - m) / (1 + m)
        return 101 * macs * (1 / m + 1 / n) + 100 * SIDE ** 2 + 4.5 * macs - SIDE ** 2
    return float(np.log(minimize_scalar(energy, bounds=(1, capacity / 3), method="bounded",
                                        options={"xatol": 1e-10}).fun))


@pytest.mark.parametrize("capacity", [24, 60, 200])
def test_the_worth_of_capacity_is_that_of_the_optimum_by_hand(capacity: int) -> None:
    spec = matmul(capacity)
    assert spec.mapping is not None
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    found = shadow_prices(layer, pack([spec.mapping], spec.problem), "energy")
    step = 1e-4
    slope = (textbook_optimum(capacity * (1 + step)) - textbook_optimum(capacity * (1 - step))) / (2 * step)
    worth = {limit.unit: e for limit, e in zip(found.limits, found.elasticity, strict=True)
             if limit.resource == "capacity"}
    assert found.certain and found.log_value == pytest.approx(textbook_optimum(capacity), abs=1e-5)
    assert worth[0] == pytest.approx(slope, rel=1e-2) and slope < -0.3


def test_a_capacity_that_the_optimum_leaves_slack_is_worth_nothing() -> None:
    spec = matmul(20_000)
    assert spec.mapping is not None
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    found = shadow_prices(layer, pack([spec.mapping], spec.problem), "energy")
    assert found.certain and not found.elasticity.any()


@pytest.mark.filterwarnings("error")
def test_a_solver_that_steps_beyond_all_numbers_is_uncertain_and_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = matmul(1024)
    assert spec.mapping is not None
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    monkeypatch.setattr(analysis, "minimize", lambda _, begin, **more: (
        SimpleNamespace(x=np.full_like(begin, 800.0))))
    assert not shadow_prices(layer, pack([spec.mapping], spec.problem), "energy").certain


def rescaled(layer: PreparedLayer, mesh: str, scale: float) -> PreparedLayer:
    """The layer on an array with so many times the columns ("mesh_x") or rows ("mesh_y"), a fraction if need be."""
    mac = replace(layer.arch.arithmetic, **{mesh: getattr(layer.arch.arithmetic, mesh) * scale})
    levels = tuple(replace(level, **{mesh: getattr(level, mesh) * (scale if getattr(level, mesh) > 1 else 1)})
                   for level in layer.arch.levels)
    return replace(layer, arch=replace(layer.arch, arithmetic=mac, levels=levels))


@pytest.mark.parametrize(("mesh", "row"), [("mesh_x", 0), ("mesh_y", 1)])
def test_the_worth_of_fan_out_is_what_an_optimum_with_more_or_less_of_it_gains(mesh: str, row: int) -> None:
    """Re-optimised with 2 % more and 2 % less: it lies between, where the optimum has a kink and the two differ."""
    layer, found = evaluated("gemmini_small", "layers/gpt3_6b7_block/gemm_2048_128_2048_x32")
    nest = found.nest.take([row])
    here = shadow_prices(layer, nest)
    slopes = [(shadow_prices(rescaled(layer, mesh, scale), nest).log_value - here.log_value) / np.log(scale)
              for scale in (1.02, 0.98)]
    worth = sum(e for limit, e in zip(here.limits, here.elasticity, strict=True)
                if limit.resource == f"fan-out {mesh[-1].upper()}")
    assert here.certain and min(slopes) - 0.01 < worth < max(slopes) + 0.01
