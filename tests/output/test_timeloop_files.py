"""The files of a run say what Timeloop's own files would say, and readers of those can read them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.base.text_formats import json_text
from fadiff_mapper.inputs.load import load, merged_input
from fadiff_mapper.inputs.native.mapping import literal_mapping
from fadiff_mapper.inputs.native.tables import art_tree, ert_tree
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import Tables, energy_sources
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.output import RESULT_FILES
from fadiff_mapper.output.run_files import map_txt, result_json, run_files
from fadiff_mapper.output.stats_txt import stats_txt
from fadiff_mapper.search.result import Result

RECORDED = Path(__file__).parents[1] / "recorded" / "emit"
CORPUS = Path(__file__).parents[3] / "shared" / "timeloop_reference" / "cases.jsonl.gz"
LOOP = re.compile(r"^\| ( *)for (\w+) in \[0:(\d+)\)( \(Spatial-[XY]\))?$", re.MULTILINE)


def design(name: str) -> tuple[Spec, Mapping, Stats]:
    spec = load(RECORDED / f"{name}.yaml")
    assert spec.mapping is not None
    return spec, spec.mapping, evaluate_mapping(spec, spec.mapping)


MESH, LIST = design("mesh"), design("list")
DESIGNS = pytest.mark.parametrize("name", ["mesh", "list"])


def result_of(spec: Spec, mapping: Mapping, stats: Stats, time_s: float = 1.5) -> Result:
    step = {"time_s": time_s / 2, "evaluations": 10, "value": 2.5, "stage": "descent"}
    return Result(spec, mapping, stats, "converged", (step,), {"seed": 7, "steps": 20}, 10, time_s)


# What Timeloop prints.

@DESIGNS
def test_the_loop_nest_is_printed_as_timeloop_prints_it(name: str) -> None:
    assert map_txt(*design(name)) == (RECORDED / f"{name}.map.txt").read_text()


@DESIGNS
def test_the_statistics_are_timeloops_below_a_first_line_of_our_own(name: str) -> None:
    spec, _, stats = design(name)
    first, rest = stats_txt(spec, stats).split("\n", 1)
    assert first.startswith("# Written by fadiff_mapper ")
    assert not re.search(r"Cycles: |Utilization|Computes =|===", first), "what readers look for"
    assert rest == (RECORDED / f"{name}.stats.txt").read_text()


def summary(text: str) -> dict[str, float]:
    """The summary as a script greps it."""
    return {key: float(re.search(pattern, text, re.MULTILINE)[1])  # type: ignore[index]
            for key, pattern in (("gflops", r"^GFLOPs \(@1GHz\): (\S+)$"), ("utilization", r"^Utilization: (\S+)%$"),
                                 ("cycles", r"^Cycles: (\d+)$"), ("energy_uj", r"^Energy: (\S+) uJ$"),
                                 ("edp", r"^EDP\(J\*cycle\): (\S+)$"), ("area", r"^Area: (\S+) mm\^2$"),
                                 ("computes", r"^Computes = (\d+)$"), ("fj", r"^    Total +?= (\S+)$"))}


@DESIGNS
def test_the_usual_greps_find_the_numbers(name: str) -> None:
    spec, _, stats = design(name)
    assert summary(stats_txt(spec, stats)) == {
        "gflops": pytest.approx(2 * stats.computes / stats.cycles, rel=0.15),
        "utilization": pytest.approx(stats.utilization * 100, abs=0.005), "cycles": stats.cycles,
        "energy_uj": pytest.approx(stats.energy_pj / 1e6, abs=0.005), "edp": pytest.approx(stats.edp / 1e12, rel=0.005),
        "area": 0.0, "computes": stats.computes,
        "fj": pytest.approx(stats.energy_pj * 1000 / stats.computes, abs=0.005)}


def test_energies_per_compute_add_up_to_the_total() -> None:
    spec, _, stats = MESH
    block = stats_txt(spec, stats).split("fJ/Compute\n")[1]
    parts = {name.strip(): float(value) for name, value in re.findall(r"^    (.+?)= (\S+)$", block, re.MULTILINE)}
    assert parts.pop("Total") == pytest.approx(sum(parts.values()), abs=0.005 * (len(parts) + 1))
    assert list(parts) == ["Mac", "Tile", "Buffer", "DRAM", "Buffer <==> Tile"]


def test_levels_without_traffic_and_networks_without_energy_are_left_out() -> None:
    text = stats_txt(LIST[0], LIST[2])
    details, intensity = text.split("Operational Intensity Stats")
    assert "=== Spread ===" not in details and "=== Spread ===" in intensity
    assert "<==>" not in text


def test_a_data_space_that_is_never_touched_has_no_energy_per_access() -> None:
    spec, _, stats = LIST
    idle = json.loads(json.dumps(stats.to_dict()["levels"]))
    idle[0]["dataspaces"]["A"] |= {"reads": 0, "fills": 0, "updates": 0, "energy_pj_per_instance": 0.0}
    text = stats_txt(spec, replace(stats, levels=idle))
    assert "Energy (per-scalar-access)               : -nan pJ" in text


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of measured Timeloop results is not there")
def test_the_summary_of_measured_cases_is_what_timeloop_printed() -> None:
    for spec, printed in measured_cases(every=15):
        assert spec.mapping is not None
        text = stats_txt(spec, evaluate_mapping(spec, spec.mapping))
        found = summary(text)
        assert (found["energy_uj"], found["utilization"], found["edp"]) == (
            printed["energy_uj"], printed["utilization_percent"], float(printed["edp_j_cycle"]))
        per_compute = dict(re.findall(r"^    (\S.*?) *= (\S+)$", text.split("fJ/Compute\n")[1], re.MULTILINE))
        shown = {name: value for name, value in printed["fj_per_compute"].items() if value or name == "Total"}
        assert {name: float(value) for name, value in per_compute.items() if float(value)} == shown


def measured_cases(every: int) -> Iterator[tuple[Spec, dict[str, Any]]]:
    with gzip.open(CORPUS, "rt") as file:
        rows = [json.loads(line) for line in file]
    known = {(row["kind"], row["id"]): row for row in rows if row["kind"] != "case"}
    for case in [row for row in rows if row["kind"] == "case" and row["status"] == "ok"][::every]:
        arch = known["arch", case["arch"]]
        document = {arch["key"]: arch["native"], "problem": known["problem", case["problem"]]["problem"],
                    "mapping": case["mapping"], "ERT": arch["ert"], "ART": arch["art"]}
        yield load({key: value for key, value in document.items() if value}), case["result"]["printed"]


# Any mapping.

@st.composite
def mappings(draw: st.DrawFn, spec: Spec) -> Mapping:
    """Any mapping whose factors multiply up to the bounds, whether the design can run it or not."""
    dims, slots = spec.problem.dimensions, [(i, kind) for i in range(len(spec.arch.levels)) for kind in ("t", "s")]
    slots = [(i, kind) for i, kind in slots if kind == "t" or prod(spec.arch.fanout(i)) > 1]
    factors = {slot: dict.fromkeys(dims, 1) for slot in [(i, k) for i in range(len(spec.arch.levels)) for k in "ts"]}
    for name, bound in spec.problem.bounds.items():
        for prime in primes(bound):
            factors[draw(st.sampled_from(slots))][name] *= prime
    orders = st.permutations(dims).map(tuple)
    keeps = st.sets(st.sampled_from(spec.problem.dataspace_names())).map(frozenset)
    outermost = frozenset(spec.problem.dataspace_names())
    return Mapping(tuple(
        LevelMapping(factors[i, "t"], draw(orders), factors[i, "s"],
                     draw(orders) if (i, "s") in slots else dims,
                     draw(st.integers(0, len(dims))) if (i, "s") in slots else len(dims),
                     draw(keeps) if i < len(spec.arch.levels) - 1 else outermost)
        for i in range(len(spec.arch.levels))))


def primes(number: int) -> list[int]:
    for divisor in range(2, number + 1):
        if number % divisor == 0:
            return [divisor, *primes(number // divisor)]
    return []


@given(mappings(MESH[0]))
def test_a_mapping_is_read_back_as_it_was(mapping: Mapping) -> None:
    spec = MESH[0]
    document = {**spec.arch.native, "problem": spec.literal["problem"],
                **yaml.safe_load(dump({"mapping": literal_mapping(mapping, spec.arch, spec.problem)}))}
    assert load(document).mapping == mapping


@given(mappings(LIST[0]))
def test_the_nest_lists_every_loop_once_indented_by_its_depth(mapping: Mapping) -> None:
    spec = LIST[0]
    try:
        stats = evaluate_mapping(spec, mapping)
    except InvalidMapping:
        stats = LIST[2]  # its tiles are not this mapping's, its levels are
    text = map_txt(spec, mapping, stats)
    loops = LOOP.findall(text)
    expected = [factor for level in mapping.levels for factor in (*level.temporal.values(), *level.spatial.values())]
    assert len(loops) == sum(factor > 1 for factor in expected)
    assert [len(indent) for indent, *_ in loops] == [2 * depth for depth in range(len(loops))]
    for name, bound in spec.problem.bounds.items():
        assert prod(int(factor) for _, loop, factor, _ in loops if loop == name) == bound
    assert re.findall(r"^(\w+) \[ .*\] $", text, re.MULTILINE) == ["DRAM", "Global", "Spread", "Weight"]
    assert text.endswith(f"| {'  ' * len(loops)}<< Compute >>\n")


# The input of a run as one file.

@DESIGNS
def test_the_merged_input_reads_back_as_the_same_run(name: str) -> None:
    spec, mapping, stats = design(name)
    again = load(yaml.safe_load(dump(merged_input(spec, mapping))))
    assert (again.arch, again.problem, again.mapping) == (spec.arch, spec.problem, mapping)
    assert (again.tables.ert, again.tables.art) == (spec.tables.ert, spec.tables.art)
    assert evaluate_mapping(again, mapping) == replace(
        stats, energy_source=energy_sources(again.arch, again.tables))
    assert dump(merged_input(again, mapping)) == dump(merged_input(spec, mapping))


@DESIGNS
def test_the_merged_input_is_literal_and_unconstrained(name: str) -> None:
    spec, mapping, _ = design(name)
    constrained = replace(spec, arch=replace(spec.arch, native={
        key: tree | {"constraints": [{"target": "DRAM", "type": "temporal", "factors": "M=1"}]}
        for key, tree in spec.arch.native.items()}))
    text = dump(merged_input(constrained, mapping))
    assert text == dump(merged_input(spec, mapping))
    assert not any(isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None)
                   for event in yaml.parse(text))
    assert "constraints" not in text and "{{" not in text


def test_without_a_mapping_the_merged_input_is_complete_but_for_it() -> None:
    assert "mapping" not in yaml.safe_load(dump(merged_input(MESH[0])))
    assert set(yaml.safe_load(dump(merged_input(MESH[0])))) == {"architecture", "problem", "ERT", "ART"}


def test_a_tree_without_tables_gets_the_built_in_energies_so_that_accelergy_is_not_called() -> None:
    spec, mapping, _ = MESH
    bare = replace(spec, tables=Tables())
    priced = load(yaml.safe_load(dump(merged_input(bare, mapping))))
    assert len(priced.tables.ert) == len(spec.arch.levels) + 1
    assert evaluate_mapping(priced, mapping).energy_pj == evaluate_mapping(bare, mapping).energy_pj


def test_the_list_format_needs_no_tables() -> None:
    assert set(yaml.safe_load(dump(merged_input(LIST[0], LIST[1])))) == {"arch", "problem", "mapping"}


# Tables.

def test_the_tables_are_written_as_they_were_read() -> None:
    spec = MESH[0]
    given_tables = yaml.safe_load((RECORDED / "mesh.yaml").read_text())
    assert yaml.safe_load(dump(ert_tree(spec.arch, spec.tables))) == given_tables["ERT"]
    assert yaml.safe_load(dump(art_tree(spec.arch, spec.tables))) == given_tables["ART"]


def test_without_tables_energies_and_areas_are_timeloops_built_in_ones_and_those_of_the_architecture() -> None:
    ert, art = (yaml.safe_load(dump(tree(LIST[0].arch, LIST[0].tables))) for tree in (ert_tree, art_tree))
    energies = {table["name"]: {action["name"]: action["energy"] for action in table["actions"]}
                for table in ert["tables"]}
    assert energies["system.DRAM"] == {"read": 200.0, "write": 200.0, "update": 200.0, "leak": 0.0}
    assert energies["system.MACs"] == {"compute": 1.0}
    areas = {table["name"]: table["area"] for table in art["tables"]}
    assert areas == {"system.DRAM": 0, "system.Global": 750, "system.Spread": 0, "system.Weight": 0, "system.MACs": 0}


# The result as JSON.

def test_the_result_holds_mapping_statistics_and_where_they_come_from() -> None:
    spec, mapping, stats = MESH
    found = json.loads(result_json(result_of(*MESH)))
    assert found["mapping"] == yaml.safe_load(dump(literal_mapping(mapping, spec.arch, spec.problem)))
    assert found["stats"] == json.loads(json.dumps(stats.to_dict()))
    assert found["history"] == [{"evaluations": 10, "value": 2.5, "stage": "descent"}]
    assert (found["status"], found["seed"], found["energy_source"]) == ("converged", 7, stats.energy_source)
    assert set(found["energy_source"].values()) == {"ERT in the input", "vector_access_energy in the architecture"}
    assert {"fadiff_mapper", "python", "numpy"} <= set(found["versions"])


def test_only_the_timing_differs_between_two_runs_with_one_seed() -> None:
    quick, slow = (json.loads(result_json(result_of(*MESH, time_s=t))) for t in (0.25, 99.0))
    assert quick.pop("timing") == {"total_s": 0.25, "history_s": [0.125]}
    assert slow.pop("timing") == {"total_s": 99.0, "history_s": [49.5]}
    assert quick == slow


def test_json_has_null_for_what_is_not_finite() -> None:
    result = result_of(*MESH)
    endless = replace(result, options={"seed": 1, "limit": float("inf")})
    assert json.loads(result_json(endless))["options"] == {"seed": 1, "limit": None}


def test_a_run_leaves_timeloops_files_and_two_of_our_own() -> None:
    files = run_files(result_of(*MESH))
    assert sorted(files) == ["fadiff.input.yaml", "fadiff.result.json", "timeloop-mapper.ART.yaml",
                             "timeloop-mapper.ERT.yaml", "timeloop-mapper.map.txt", "timeloop-mapper.map.yaml",
                             "timeloop-mapper.stats.txt"]
    assert all(text.endswith("\n") for text in files.values())


def test_numbers_without_an_end_are_null_in_json() -> None:
    text = json_text({"a": float("inf"), "b": [float("nan"), -1.5], "c": (1, float("-inf"))})
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [None, -1.5], "c": [1, None]}


def test_the_files_of_a_result_have_the_names_that_are_looked_at_before_the_search() -> None:
    assert set(run_files(result_of(*MESH))) == set(RESULT_FILES)
