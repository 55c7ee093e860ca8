"""Reuse switched off by name: what a machine then moves, counted by hand, and how it is written and read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fadiff_mapper import load
from fadiff_mapper.inputs.native.mapping import literal_mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate, evaluate_mapping
from fadiff_mapper.model.reuse import full_reuse, reuse_of, with_reuse

PRODUCT = """
architecture: {version: '0.3', subtree: [{name: chip, local: [
  {name: DRAM, class: DRAM, attributes: {word_bits: 16}},
  {name: Global, class: SRAM, attributes: {entries: 4096, word_bits: 16}},
  {name: 'Local[0..3]', class: SRAM, attributes: {entries: 64, word_bits: 16}},
  {name: 'MAC[0..3]', class: mac, attributes: {word_bits: 16}}]}]}
problem:
  shape: {name: product, dimensions: [M, K, N], data_spaces: [{name: A, projection: [[[M]], [[K]]]},
    {name: B, projection: [[[K]], [[N]]]}, {name: Z, projection: [[[M]], [[N]]], read_write: true}]}
  instance: {M: 4, K: 6, N: 5}
mapping:
- {target: DRAM, type: temporal, factors: M=1 K=1 N=1, permutation: MKN}
- {target: Global, type: temporal, factors: M=1 K=1 N=5, permutation: NKM}
- {target: Global, type: spatial, factors: M=4 K=1 N=1, permutation: MKN}
- {target: Local, type: temporal, factors: M=1 K=6 N=1, permutation: KMN}
"""
"""Four units, each with a row of A (6 words) to itself that it needs for all 5 columns; they share the columns of B."""


def product(switches: dict[str, list[str]] | None = None, constraints: list[dict[str, Any]] | None = None) -> Spec:
    """The design with `no_reuse` for some directives: {"Local temporal": ["A"]}."""
    document = yaml.safe_load(PRODUCT)
    for directive in document["mapping"]:
        names = (switches or {}).get(f"{directive['target']} {directive['type']}")
        directive |= {"no_reuse": names} if names else {}
    return load(document | ({"mapspace_constraints": {"targets": constraints}} if constraints else {}))


def accesses(spec: Spec, level: str, name: str) -> tuple[int, int, int]:
    """Reads, fills and updates of one instance."""
    found = next(one for one in evaluate(spec).to_dict()["levels"] if one["name"] == level)["dataspaces"][name]
    return found["reads"], found["fills"], found["updates"]


def test_with_reuse_a_row_is_sent_once_and_a_column_to_all_units_together() -> None:
    assert accesses(product(), "Global", "A")[0] == 4 * 6
    assert accesses(product(), "Local", "A")[1] == 6
    assert accesses(product(), "Global", "B")[0] == 6 * 5


def test_without_temporal_reuse_a_row_is_sent_for_every_column() -> None:
    spec = product({"Local temporal": ["A"]})
    assert accesses(spec, "Local", "A") == (6 * 5, 6 * 5, 0)
    assert accesses(spec, "Global", "A")[0] == 4 * 6 * 5
    assert accesses(spec, "Global", "B") == accesses(product(), "Global", "B")


def test_without_multicast_every_unit_is_sent_its_own_column() -> None:
    spec = product({"Global spatial": ["B"]})
    assert accesses(spec, "Global", "B")[0] == 4 * 6 * 5
    assert accesses(spec, "Local", "B") == accesses(product(), "Local", "B")


def test_without_reduction_every_partial_sum_reaches_the_level_above() -> None:
    """K over the units: each sends its 20 partial sums of Z."""
    document = yaml.safe_load(PRODUCT)
    document["problem"]["instance"]["K"] = 4
    document["mapping"][1]["factors"], document["mapping"][2]["factors"] = "M=4 K=1 N=5", "M=1 K=4 N=1"
    document["mapping"][3]["factors"] = "M=1 K=1 N=1"
    assert accesses(load(document), "Global", "Z") == (0, 0, 20)
    document["mapping"][2]["no_reuse"] = ["Z"]
    assert accesses(load(document), "Global", "Z") == (80 - 20, 0, 80)


def test_a_given_mapping_counts_as_its_own_directives_say() -> None:
    """As in `timeloop-model`: constraints are for the search."""
    constrained = product(constraints=[{"target": "Local", "type": "temporal", "no_reuse": ["A"]}])
    assert evaluate(constrained).to_dict() == evaluate(product()).to_dict()
    assert constrained.mapping is not None
    searched = with_reuse(constrained.mapping, constrained.constraints)
    assert evaluate_mapping(constrained, searched).to_dict() == evaluate(product({"Local temporal": ["A"]})).to_dict()


@pytest.mark.parametrize(("switches", "key"), [({"Local temporal": ["A", "Z"]}, "temporal"),
                                               ({"Global spatial": ["Z", "B"]}, "spatial")])
def test_switches_are_written_as_they_are_read(switches: dict[str, list[str]], key: str) -> None:
    spec = product(switches)
    assert spec.mapping is not None
    written = literal_mapping(spec.mapping, spec.arch, spec.problem)
    (target, names), = ((name.split()[0], sorted(off)) for name, off in switches.items())
    assert [(one["target"], one["type"], one["no_reuse"]) for one in written if "no_reuse" in one] \
        == [(target, key, names)]
    document = yaml.safe_load(PRODUCT) | {"mapping": written}
    again = load(document).mapping
    assert again is not None
    assert literal_mapping(again, spec.arch, spec.problem) == written


def test_a_later_directive_keeps_a_switch_that_it_does_not_mention() -> None:
    document = yaml.safe_load(PRODUCT)
    document["mapping"][3]["no_temporal_reuse"] = ["A"]
    repeated = {key: value for key, value in document["mapping"][3].items() if key != "no_temporal_reuse"}
    found = load(document | {"mapping": [*document["mapping"], repeated]})
    assert found.mapping is not None
    assert found.mapping.levels[0].no_temporal_reuse == {"A"}


def test_the_arithmetic_never_holds_anything() -> None:
    spec = product()
    assert spec.mapping is not None
    reuse, default = reuse_of(spec.mapping, ("A", "B", "Z")), full_reuse(3, 3)
    assert reuse.held.tolist() == default.held.tolist() == [[False] * 3, [True] * 3, [True] * 3]
    assert reuse.multicast.all() and default.multicast.all()
