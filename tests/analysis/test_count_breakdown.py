"""Every count is the arithmetic that is printed for it: on recorded cases, random mappings, and one by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import assume, given
from recorded_cases import NO_REUSE, OWN_DESIGNS, RECORDED, document, read
from recorded_cases import cases as recorded_cases
from strategies import UNSHARED, Case, cases, switched_cases

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.stats import stats_of
from fadiff_mapper.search.explanation.count_breakdown import CountExplanation, explain_counts


def worth(expression: str) -> Fraction:
    """The value of sums of products of decimal numbers."""
    assert re.fullmatch(r"[0-9.]+( [*+-] [0-9.]+)*", expression), expression
    total, sign = Fraction(0), 1
    for part in re.split(r" ([+-]) ", expression):
        if part in "+-":
            sign = 1 if part == "+" else -1
            continue
        product = Fraction(sign)
        for factor in part.split(" * "):
            product *= Fraction(factor)
        total += product
    return total


def misnamed(one: CountExplanation) -> bool:
    """Whether a factor's text hides its value, or what is called rounding is none."""
    return (any(str(factor.value) not in factor.text for factor in one.factors)
            or any(abs(c.value) >= 1 for c in one.corrections if c.text == "rounded to whole words"))


def wrong(layer: PreparedLayer, found: Evaluation, row: int) -> list[str]:
    """Counts of a row that are missing, or that their expression or their factors' texts do not give."""
    explained = {(e.level, e.dataspace, e.action): e for e in explain_counts(layer, found, row)}
    levels = {level["name"]: level["dataspaces"] for level in stats_of(layer, found, row).levels}
    mistakes = []
    for level, spaces in levels.items():
        for name, space in spaces.items():
            for action in ("reads", "fills", "updates"):
                one = explained.get((level, name, action))
                if one is None:
                    mistakes += [f"{level} {name} {action} is not explained"] if space[action] else []
                elif not worth(one.expression()) == one.count == space[action] or misnamed(one):
                    mistakes.append(f"{one.sentence()} instead of {space[action]}")
    return mistakes


STRIDE = 3
"""Of the many recordings every third batch is explained, which leaves each design several problems."""


@pytest.mark.parametrize("path", [RECORDED, NO_REUSE], ids=["reuse", "no_reuse"])
@pytest.mark.parametrize("arch", [*bundled_files.designs(), *OWN_DESIGNS])
def test_every_count_of_the_recorded_cases_adds_up(path: object, arch: str) -> None:
    checked = 0
    for (problem, _), group in islice(recorded_cases(path, arch).items(), 0, None, STRIDE if path == RECORDED else 1):
        spec = load(document(path, arch, problem))
        mappings = [mapping for case in group if isinstance(mapping := read(case, spec), Mapping)]
        if not mappings:
            continue
        layer = prepare_layer(spec.arch, spec.problem, spec.tables,
                              reuse_of(mappings[0], spec.problem.dataspace_names()))
        found = evaluate_nest(layer, pack(mappings, spec.problem), details=True)
        for row in range(len(mappings)):
            if found.legal[row]:
                assert not wrong(layer, found, row)
                checked += 1
    assert checked >= 4


@given(cases() | switched_cases())
def test_every_count_of_a_random_mapping_adds_up(case: Case) -> None:
    layer = prepare_layer(case.arch, case.problem, Tables(), reuse_of(case.mapping, case.problem.dataspace_names()))
    found = evaluate_nest(layer, pack([case.mapping], case.problem), details=True)
    assert not wrong(layer, found, 0)


@given(cases(UNSHARED))
def test_without_windows_or_links_a_count_is_a_product_but_for_first_writes(case: Case) -> None:
    layer = prepare_layer(case.arch, case.problem, Tables())
    found = evaluate_nest(layer, pack([case.mapping], case.problem))
    assume(not found.raw.links.any())
    texts = {c.text for one in explain_counts(layer, found) for c in one.corrections}
    assert all(text.startswith("first ") for text in texts), texts


def test_a_count_is_explained_in_the_words_of_the_loops() -> None:
    spec = load(str(bundled_files.find("arch/gemmini_small")), str(bundled_files.find("problems/conv")))
    spec = replace(spec, problem=replace(spec.problem, bounds={
        "C": 8, "M": 32, "R": 1, "S": 1, "N": 1, "P": 7, "Q": 49}))
    names = spec.problem.dimensions
    ones = dict.fromkeys(names, 1)
    plan = {"DRAM": {"Q": 49, "M": 2}, "Scratchpad": {"P": 7, "C": 8}}
    spread = {"inter_PEColumns_spatial": {"M": 16}}
    keep = {"DRAM": {"Weights", "Inputs", "Outputs"}, "Scratchpad": {"Weights", "Inputs"}, "Accumulator": {"Outputs"},
            "WeightRegister": {"Weights"}}
    mapping = Mapping(tuple(
        LevelMapping(ones | plan.get(name, {}), ("M", *(d for d in names if d != "M")), ones | spread.get(name, {}),
                     names, len(names), frozenset(keep.get(name, ()))) for name in spec.arch.level_names()))
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    found = evaluate_nest(layer, pack([mapping], spec.problem))
    said = {(e.level, e.dataspace, e.action): e.sentence() for e in explain_counts(layer, found)}
    assert said["Scratchpad", "Inputs", "fills"] == (
        "fills of Inputs at Scratchpad = tile 56 (C8 x P7) x 49 (Q loop at DRAM) = 2744; held over the M2 loop at DRAM")
    assert said["Scratchpad", "Inputs", "reads"] == (
        "reads of Inputs at Scratchpad = 1 (word per cycle and unit) x 8 (C loop at Scratchpad) x 7 (P loop at "
        "Scratchpad) x 2 (M loop at DRAM) x 49 (Q loop at DRAM) = 5488; multicast: 16 (M over the fan-out of "
        "inter_PEColumns_spatial)")
