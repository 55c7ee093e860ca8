"""Energy, leakage and area as smooth functions of a component's attributes: their values, slopes and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper import load
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.energy.estimated_tables import (
    ARITHMETIC,
    INPUTS,
    NEEDED,
    REGISTER_FILE,
    RISING,
    ComponentFigures,
    arithmetic,
    clock_ns,
    estimated,
    figures,
    primitives,
    register_file,
    smooth_figures,
    sram_regressor,
)
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.tables import Tables

SHAPES: dict[str, dict[str, float]] = {
    "SRAM": {"depth": 1500.0, "width": 100.0, "n_banks": 3.0, "n_rw_ports": 1.5, "technology_nm": 40.0},
    "regfile": {"depth": 20.0}, "intmac": {"width": 13.0}, "fpmac": {"width": 27.0}, "DRAM": {"width": 64.0}}
"""A component of each kind, away from the corners of its formula."""
MEMORIES = ("SRAM", "regfile")
"""Kinds in whose figures hardware rounds: banks, and bits of an address."""


def flat(found: ComponentFigures) -> list[Any]:
    """All figures of a component."""
    return [*found.actions.values(), found.area_um2]


# One formula for numbers, arrays and tensors.

@pytest.mark.parametrize("kind", NEEDED)
def test_numbers_arrays_and_tensors_give_the_same(kind: str) -> None:
    alone = flat(smooth_figures(kind, SHAPES[kind]))
    arrays = flat(smooth_figures(kind, {name: np.full((2, 3), value) for name, value in SHAPES[kind].items()}))
    tensors = flat(smooth_figures(kind, {name: torch.full((2, 3), value, dtype=torch.float64)
                                         for name, value in SHAPES[kind].items()}))
    for one, array, tensor in zip(alone, arrays, tensors, strict=True):
        assert array.shape == tuple(tensor.shape) == (2, 3) and isinstance(tensor, torch.Tensor)
        assert array == pytest.approx(float(one), rel=1e-12) and tensor.numpy() == pytest.approx(array, rel=1e-12)


def test_attributes_broadcast() -> None:
    found = smooth_figures("SRAM", {"depth": np.array([64.0, 128.0, 256.0]), "width": np.array([[32], [64]])})
    assert found.area_um2.shape == found.actions["read"].shape == (2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", NEEDED)
def test_gradients_are_those_of_the_function(kind: str) -> None:
    names = list(SHAPES[kind])
    point = [torch.tensor([value, 1.3 * value], dtype=torch.float64, requires_grad=True)
             for value in SHAPES[kind].values()]
    assert torch.autograd.gradcheck(
        lambda *values: tuple(flat(smooth_figures(kind, dict(zip(names, values, strict=True))))[:1]
                              + flat(smooth_figures(kind, dict(zip(names, values, strict=True))))[-1:]), point)


# A larger component costs more.

@given(st.floats(1, 2 ** 24), st.floats(1, 4096), st.sampled_from([5.0, 22.0, 40.0, 45.0, 90.0]),
       st.floats(1, 64), st.sampled_from([1.0, 2.0, 4.0]))
def test_an_sram_rises_with_depth_width_and_ports(depth: float, width: float, nm: float, banks: float,
                                                  ports: float) -> None:
    memory = torch.tensor([depth, width, nm, banks, ports], dtype=torch.float64, requires_grad=True)
    for figure in sram_regressor().estimate(memory):
        slopes = torch.autograd.grad(figure, memory, retain_graph=True)[0]
        assert all(slope > 0 for name, slope in zip(INPUTS, slopes, strict=True) if name in RISING)


def test_no_weight_on_a_path_from_a_rising_input_is_negative() -> None:
    network, rising = sram_regressor(), [name in RISING for name in INPUTS]
    first, *later = (weights for weights, _ in network.layers)
    assert (first[:, rising] > 0).all() and (network.skip[:, rising] > 0).all()
    assert all((weights > 0).all() for weights in later)


@pytest.mark.parametrize(("kind", "name"), [("regfile", "depth"), ("intmac", "width"), ("fpmac", "width"),
                                            ("DRAM", "width")])
def test_other_components_rise_with_their_size(kind: str, name: str) -> None:
    found = smooth_figures(kind, {name: np.geomspace(1, 32, 100)})
    for figure in (*found.actions.values(), found.area_um2):
        assert (np.diff(figure) > 0).all() or (kind == "DRAM" and not figure.any())


# Against what was recorded.

def test_register_files_and_arithmetic_are_the_recorded_ones_to_their_digits() -> None:
    table = figures("regfile")
    whole = register_file(table["depth"], np.ceil(np.log2(table["depth"])))
    for name, values in zip(REGISTER_FILE, whole, strict=True):
        assert values == pytest.approx(table[name], rel=5e-6)
    for unit_class in ("intmac", "fpmac"):
        table = figures(unit_class)
        for cycle in set(table["cycle_ns"]):
            rows = table["cycle_ns"] == cycle
            for name, values in zip(ARITHMETIC, arithmetic(unit_class, table["width_bits"][rows], cycle * 1e-9),
                                    strict=True):
                assert values == pytest.approx(table[name][rows], rel=5e-6)


def test_the_smooth_register_file_is_exact_at_powers_of_two_and_within_a_fifth_between() -> None:
    table = figures("regfile")
    found = smooth_figures("regfile", {"depth": table["depth"]})
    powers = np.log2(table["depth"]) % 1 == 0
    for values, name in ((found.actions["read"], "access_pj"), (found.actions["leak"], "leak_pj"),
                         (found.area_um2, "area_um2")):
        errors = np.abs(values / table[name] - 1)
        assert errors[powers].max() < 1e-5 < errors[~powers].min() and errors.max() < 0.2 and errors.mean() < 0.07


@pytest.mark.parametrize(("cycle_seconds", "clock"), [
    (0.1e-9, 0.5), (0.75e-9, 0.5), (0.8e-9, 1), (1e-9, 1), (3e-9, 3), (3.2e-9, 4), (7e-9, 6), (10e-9, 6), (1e-6, 11)])
def test_the_clock_is_one_of_those_that_were_recorded(cycle_seconds: float, clock: float) -> None:
    assert clock_ns(cycle_seconds) == clock and clock in figures("intmac")["cycle_ns"]


@pytest.mark.parametrize("design", designs())
def test_where_nothing_is_rounded_the_smooth_figures_are_the_estimate(design: str) -> None:
    arch = load(str(find(f"arch/{design}")), str(find("problems/conv"))).arch
    tables = estimated(arch, Tables())
    measured, compared = areas(arch, tables), 0
    for name, part in primitives(arch).items():
        rounded = part.attributes["depth" if part.kind == "regfile" else "n_banks"] if part.kind in MEMORIES else 1
        if math.log2(rounded) % 1:
            continue
        found = smooth_figures(part.kind, part.attributes)
        assert {action: energy * part.energy_scale for action, energy in found.actions.items()} \
            == pytest.approx(tables.actions.get(name, {}), rel=1e-12)
        assert found.area_um2 * part.area_scale / part.sharers == pytest.approx(measured[name].each, rel=1e-12)
        compared += 1
    assert compared >= 3


def test_a_component_without_formula_or_size_is_refused() -> None:
    with pytest.raises(FadiffError, match=r"found a component of kind 'cache'; accepted: SRAM"):
        smooth_figures("cache", {})
    with pytest.raises(FadiffError, match="kind SRAM lacks depth, width"):
        smooth_figures("SRAM", {"technology_nm": 45})
