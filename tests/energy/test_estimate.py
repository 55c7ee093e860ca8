"""Estimates of energies and areas have the errors that they state on recorded figures, and say what they rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fadiff_mapper import evaluate, load
from fadiff_mapper.base.bundled_files import ROOT, find
from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.inputs.energy.choose_source import find_tables
from fadiff_mapper.inputs.energy.estimated_tables import (
    INPUTS,
    OUTPUTS,
    dram_bit_energies,
    estimated,
    figures,
    sram_regressor,
)
from fadiff_mapper.inputs.energy.source_names import CHOICES
from fadiff_mapper.inputs.spec.tables import (
    BUILT_IN,
    Tables,
    component_name,
    compute_energy,
    energy_sources,
    storage_energy,
)
from fadiff_mapper.inputs.yaml.located import LARGEST, SMALLEST

NETWORK = json.loads((ROOT / "figures" / "sram_network.json").read_text())


def rows(table: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and recorded outputs of the network."""
    return tuple(np.stack([table[name] for name in names], axis=-1) for names in (INPUTS, OUTPUTS))


def document(buffer: dict[str, Any], mac: dict[str, Any] | None = None, kinds: tuple[str, str] = ("SRAM", "intmac"),
             dram: dict[str, Any] | None = None, **buffer_keys: Any) -> dict[str, Any]:
    """DRAM, one buffer, four units; attributes around them say 45 nm and 1 ns."""
    local = [{"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16, **(dram or {})}},
             {"name": "Buffer", "class": kinds[0], "attributes": {"word_bits": 16, **buffer}, **buffer_keys},
             {"name": "MAC[0..3]", "class": kinds[1], "attributes": {"word_bits": 16, **(mac or {})}}]
    around = {"technology": "45nm", "global_cycle_seconds": 1e-9}
    return {"architecture": {"version": "0.4", "subtree": [{"name": "chip", "attributes": around, "local": local}]},
            "problem": yaml.safe_load(find("problems/matmul").read_text())["problem"]}


def energies(*arguments: Any, **keywords: Any) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Component -> action -> pJ, and component -> source, as estimated for `document`."""
    spec = load(document(*arguments, **keywords), energy="estimate")
    return ({component_name(table.component): table.actions for table in spec.tables.ert},
            energy_sources(spec.arch, spec.tables))


# The network.

@pytest.mark.parametrize(("table", "key"), [("sram", "fit_error"), ("sram_held_out", "held_out_error")])
def test_the_network_has_the_error_that_its_file_states(table: str, key: str) -> None:
    inputs, outputs = rows(figures(table))
    errors = np.abs(sram_regressor().estimate(inputs) / outputs - 1)
    for name, column in zip(OUTPUTS, errors.T, strict=True):
        assert column.mean() == pytest.approx(NETWORK[key][name]["mean"], abs=2e-5)
        assert column.max() == pytest.approx(NETWORK[key][name]["worst"], abs=2e-5)


def test_the_held_out_figures_are_none_of_those_that_were_fitted() -> None:
    fitted, held_out = (rows(figures(name))[0] for name in ("sram", "sram_held_out"))
    assert not {tuple(row) for row in fitted} & {tuple(row) for row in held_out}
    assert len(fitted) == NETWORK["figures"] and len(held_out) == NETWORK["held_out_figures"] >= 40
    assert not {row[0] * row[1] for row in fitted} & {row[0] * row[1] for row in held_out}  # nor of their capacities


@pytest.mark.slow
def test_a_short_training_comes_near_the_shipped_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # the scripts are not installed
    from fadiff_validation import train_sram_network as train
    table = {column: values[::3] for column, values in figures("sram").items()}
    one_step, short = (train.trained(table, 0, steps) for steps in (1, 25))
    errors = [train.errors(one, table)["read_pj"]["mean"] for one in (one_step, short)]
    assert errors[1] < errors[0] and errors[1] < 0.3
    assert train.trained(table, 0, 1)["layers"] == one_step["layers"]


# Components.

def test_every_component_gets_an_energy_and_a_source_of_its_own() -> None:
    priced, sources = energies({"depth": 1024, "width": 64})
    read, write, leak, _ = sram_regressor().estimate(np.array([1024.0, 64, 45, 1, 1]))
    assert priced["Buffer"] == pytest.approx({"read": read, "write": write, "update": write, "leak": leak})
    assert priced["DRAM"] == {"read": 128.0, "write": 128.0, "update": 128.0, "leak": 0.0}
    assert priced["MAC"] == {"compute": pytest.approx(3.275)}
    assert "network fitted to CACTI" in sources["Buffer"] and "%" in sources["Buffer"]
    assert sources["DRAM"] == "estimate: 8 pJ per bit (LPDDR4, assumed)"
    assert sources["MAC"] == "estimate: figures of Aladdin for intmac of 16 bits, 45 nm"


def test_a_register_file_costs_what_aladdin_says() -> None:
    priced, sources = energies({"depth": 16, "width": 16}, kinds=("regfile", "fpmac"),
                               mac={"exponent": 8, "mantissa": 23})
    assert priced["Buffer"]["read"] == pytest.approx(0.06794) and "register files" in sources["Buffer"]
    assert priced["MAC"]["compute"] == pytest.approx(49.286) and "fpmac of 31 bits" in sources["MAC"]


@pytest.mark.parametrize("kind", dram_bit_energies())
def test_a_dram_costs_what_its_type_costs_per_bit(kind: str) -> None:
    priced, sources = energies({"depth": 64, "width": 16}, dram={"type": kind, "width": 64})
    assert priced["DRAM"]["read"] == pytest.approx(64 * dram_bit_energies()[kind])
    assert f"({kind})" in sources["DRAM"]


def test_assumptions_and_the_end_of_the_recorded_range_are_said() -> None:
    _, sources = energies({"depth": 64, "width": 16, "technology": "7nm"}, mac={"technology": "7nm"})
    assert "outside the range" in sources["Buffer"] and "not scaled to 7 nm" in sources["MAC"]
    _, sources = energies({"depth": 64, "width": 16, "technology": "future"})
    assert "45 nm assumed" in sources["Buffer"]


def test_scale_clock_and_stated_energies_are_heeded() -> None:
    plain, _ = energies({"depth": 64, "width": 16})
    scaled, _ = energies({"depth": 64, "width": 16, "global_cycle_seconds": 2e-9}, energy_scale=3)
    assert scaled["Buffer"]["read"] == pytest.approx(3 * plain["Buffer"]["read"])
    assert scaled["Buffer"]["leak"] == pytest.approx(6 * plain["Buffer"]["leak"])
    priced, sources = energies({"depth": 64, "width": 16, "vector_access_energy": 1.5}, mac={"energy": 2})
    assert set(priced) == {"DRAM"}
    assert sources["Buffer"] == "vector_access_energy in the architecture"
    assert sources["MAC"] == "energy in the architecture"


def test_a_cluster_is_priced_as_the_one_memory_that_it_is() -> None:
    together, _ = energies({"depth": 64, "width": 64, "block_size": 2, "cluster_size": 2, "instances": 2},
                           mac={"instances": 4})
    single, _ = energies({"depth": 64, "width": 64, "block_size": 4}, mac={"instances": 4})
    assert together["Buffer"] == single["Buffer"]


# Extremes: numbers at the ends of the ranges that are read, and beyond where no range is checked.

EXTREMES = (1, 2 ** 31, 2 ** 53, 10 ** 25, 10 ** 400, SMALLEST, LARGEST, 5e-324, 1.7e308)


@pytest.mark.filterwarnings("error")
def test_the_network_is_finite_at_extremes() -> None:
    ends = np.stack(np.meshgrid(*[(SMALLEST, 1.0, 2.0 ** 53, LARGEST)] * 5), axis=-1).reshape(-1, 5)
    found = sram_regressor().estimate(ends)
    assert np.isfinite(found).all() and (found > 0).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kinds", [("SRAM", "intmac"), ("regfile", "fpmac")])
@pytest.mark.parametrize("key", ["width", "depth", "technology", "n_banks", "block_size", "global_cycle_seconds",
                                 "exponent", "mantissa", "energy_scale"])
def test_extreme_attributes_end_in_finite_energies_or_in_one_line(key: str, kinds: tuple[str, str]) -> None:
    for value in (*EXTREMES, "9" * 400 + "nm", "0." + "0" * 400 + "1 nm"):
        try:
            priced, _ = energies({"depth": 64, "width": 16, key: value}, {key: value}, kinds, {"width": 16},
                                 **({key: value} if key == "energy_scale" else {}))
        except SpecError as error:
            assert "\n" not in str(error) and "accepted" in str(error)
        else:
            assert all(0 <= energy <= LARGEST for actions in priced.values() for energy in actions.values())


def test_an_estimate_beyond_all_ranges_is_refused_with_its_component() -> None:
    with pytest.raises(SpecError, match=r'MAC.*: the estimate of "compute" is 1\.\d+e\+58 pJ \(estimate: .*ERT'):
        energies({"depth": 64, "width": 16}, {"width": LARGEST})


# The order.

def given_ert(document: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    tables = [{"name": f"chip.{name}", "actions": [{"name": action, "energy": 9.0} for action in
                                                  ("read", "write", "update", "compute")]} for name in names]
    return document | {"ERT": {"version": "0.4", "tables": tables}}


@pytest.mark.parametrize("choice", CHOICES)
def test_an_ert_in_the_input_comes_first(choice: str) -> None:
    spec = load(given_ert(document({"depth": 64, "width": 16}), ("DRAM", "Buffer", "MAC[0..3]")), energy=choice)
    assert set(energy_sources(spec.arch, spec.tables).values()) == {"ERT in the input"}


def test_an_incomplete_ert_is_filled_in_only_where_that_is_asked_for() -> None:
    incomplete = given_ert(document({"depth": 64, "width": 16}), ("DRAM", "MAC[0..3]"))
    sources = {choice: energy_sources((spec := load(incomplete, energy=choice)).arch, spec.tables)
               for choice in ("estimate", "built-in")}
    assert sources["estimate"]["DRAM"] == sources["built-in"]["DRAM"] == "ERT in the input"
    assert sources["estimate"]["Buffer"].startswith("estimate: ") and sources["built-in"]["Buffer"] == BUILT_IN


def test_auto_takes_bundled_tables_else_an_estimate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = load(str(find("arch/gemmini_small")), str(find("problems/conv")), energy="auto")
    assert set(energy_sources(spec.arch, spec.tables).values()) == {"bundled with gemmini_small"}
    spec = load(document({"depth": 64, "width": 16}), energy="auto")
    assert all(source.startswith("estimate: ") for source in energy_sources(spec.arch, spec.tables).values())


def test_load_gives_timeloops_own_values_unless_told_otherwise() -> None:
    spec = load(document({"depth": 64, "width": 16}))
    assert set(energy_sources(spec.arch, spec.tables).values()) == {BUILT_IN}
    assert spec.tables == Tables()


def test_an_unknown_source_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(FadiffError, match=r"energy: found 'estimated' \(did you mean \"estimate\"\?\); accepted: auto"):
        load(document({"depth": 64, "width": 16}), energy="estimated")


@pytest.mark.parametrize("name", ["eyeriss_like", "gemmini_large", "simba_like"])
def test_estimates_of_bundled_designs_lie_near_what_accelergy_says(name: str) -> None:
    """SRAM by the network's worst error; register files, arithmetic and DRAM by the digits that were recorded."""
    spec = load(str(find(f"arch/{name}")), str(find("problems/conv")))
    guess = estimated(spec.arch, Tables())
    for level in spec.arch.levels:
        if not level.is_dummy:
            by_network = "network" in energy_sources(spec.arch, guess)[level.name]
            recorded = storage_energy(level, spec.tables).read
            slack = sram_regressor().worst["read_pj"] if by_network else 0.02
            assert storage_energy(level, guess).read == pytest.approx(recorded, rel=slack)
    assert compute_energy(spec.arch.arithmetic, guess)[0] == pytest.approx(
        compute_energy(spec.arch.arithmetic, spec.tables)[0], rel=1e-5)


def test_the_statistics_say_where_each_energy_comes_from() -> None:
    spec = load(str(find("arch/gemmini_small")), str(find("layers/resnet18/conv3x3_64_64_56_s1")),
                str(find("mappings/gemmini_small")), energy="estimate")
    sources = evaluate(spec).to_dict()["energy_source"]
    assert list(sources) == ["DRAM", "Scratchpad", "Accumulator", "WeightRegister", "MACC"]
    assert sources["DRAM"] == "estimate: 8 pJ per bit (LPDDR4)"


def test_the_old_list_format_is_not_handed_to_accelergy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "accelergy").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "accelergy").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    listed = {"arithmetic": {"name": "MAC", "instances": 4, "word-bits": 16},
              "storage": [{"name": "Buffer", "entries": 64, "instances": 1, "word-bits": 16},
                          {"name": "DRAM", "technology": "DRAM", "instances": 1, "word-bits": 16}]}
    arch = load({**document({}), "architecture": listed}).arch
    tables, notes = find_tables(arch, Tables(), "auto", {})
    assert tables.ert and "list format" in notes[0]
    with pytest.raises(FadiffError, match="list format"):
        find_tables(arch, Tables(), "accelergy", {})


def test_a_second_design_is_priced_without_reading_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A search over hardware prices thousands of designs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    first, second = (load(document({"depth": depth, "width": 64})).arch for depth in (1024, 2048))
    choices = ("auto", "estimate", "dosa", "bundled")
    for choice in choices:
        find_tables(first, Tables(), choice, {})
    opened: list[Any] = []
    monkeypatch.setattr(Path, "read_text", lambda path, **_: opened.append(path))
    monkeypatch.setattr("builtins.open", lambda path, *_, **__: opened.append(path))
    found = {choice: find_tables(second, Tables(), choice, {})[0] for choice in choices}
    assert not opened and found["estimate"].ert and found["estimate"].art and found["dosa"].ert
