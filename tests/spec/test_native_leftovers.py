"""Unusual input that the real `timeloop-model` reads: the results are its own (Timeloop 4cf6d4c)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fadiff_mapper import InvalidMapping, SpecError, evaluate, load
from fadiff_mapper.model.stats import Stats

GEMM: dict[str, Any] = {
    "architecture": {"version": "0.3", "subtree": [{"name": "sys", "local": [
        {"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16, "width": 64, "instances": 1, "meshX": 1}},
        {"name": "Buf", "class": "SRAM",
         "attributes": {"word_bits": 16, "entries": 4096, "instances": 1, "meshX": 1}},
        {"name": "Reg", "class": "regfile", "attributes": {"word_bits": 16, "entries": 64, "instances": 4, "meshX": 4}},
        {"name": "Mac", "class": "mac", "attributes": {"word_bits": 16, "instances": 4, "meshX": 4}}]}]},
    "ERT": {"version": "0.4", "tables": [
        {"name": "sys.DRAM", "actions": [{"name": "read", "energy": 100}, {"name": "write", "energy": 110}]},
        {"name": "sys.Buf", "actions": [{"name": "read", "energy": 5}, {"name": "write", "energy": 6}]},
        {"name": "sys.Reg", "actions": [{"name": "read", "energy": 0.5}, {"name": "write", "energy": 0.6}]},
        {"name": "sys.Mac", "actions": [{"name": "compute", "energy": 1}]}]},
    "problem": {"version": "0.4", "instance": {"M": 8, "K": 6, "N": 4}, "shape": {
        "name": "gemm", "dimensions": ["M", "K", "N"], "data_spaces": [
            {"name": "A", "projection": [[["M"]], [["K"]]]}, {"name": "B", "projection": [[["K"]], [["N"]]]},
            {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True}]}},
    "mapping": [
        {"target": "DRAM", "type": "temporal", "factors": "M=2 K=1 N=2", "permutation": "MKN"},
        {"target": "Buf", "type": "temporal", "factors": "M=1 K=3 N=2", "permutation": "MKN"},
        {"target": "Buf", "type": "spatial", "factors": "M=4", "permutation": "MKN"},
        {"target": "Reg", "type": "temporal", "factors": "K=2", "permutation": "MKN"}]}


def answer(*, buffer: dict[str, Any] | None = None, loops: dict[str, Any] | None = None, bypass: bool = False,
           strict: bool = True) -> Stats:
    """The result of the product with other attributes of the buffer, or another directive of its registers."""
    document = deepcopy(GEMM)
    attributes = document["architecture"]["subtree"][0]["local"][1]["attributes"]
    if bypass:
        del attributes["entries"]
    attributes |= buffer or {}
    document["mapping"][3] |= loops or {}
    if bypass:
        document["mapping"].append({"target": "Buf", "type": "bypass", "bypass": ["A", "B", "Z"]})
    found = evaluate(load(document, strict=strict))
    assert isinstance(found, Stats)
    return found


PLAIN = (48, 6801.6)
"""Cycles and pJ of the product as it is."""


def test_a_depth_of_zero_beside_entries_and_a_size_of_zero_on_a_bypassed_level_are_read() -> None:
    found = answer(buffer={"depth": 0})
    assert (found.cycles, round(found.energy_pj, 6)) == PLAIN
    for size in ("sizeKB", "depth", "entries"):
        found = answer(buffer={size: 0}, bypass=True)
        assert (found.cycles, round(found.energy_pj, 6)) == (48, 7689.6)
    with pytest.raises(InvalidMapping, match="exceeds buffer capacity 0"):
        answer(buffer={"entries": 0})


def test_a_bandwidth_scale_in_words_is_zero() -> None:
    scaled = {"shared_bandwidth": 1, "per_dataspace_bandwidth_consumption_scale": {"A": "1 / X"}}
    found = answer(buffer=scaled, strict=False)
    assert (found.cycles, round(found.energy_pj, 6)) == (104, 6801.6)
    assert answer(buffer=scaled | {"per_dataspace_bandwidth_consumption_scale": {"A": 0}}).cycles == 104
    with pytest.raises(SpecError, match='found the text "1 / X"'):
        answer(buffer=scaled)


@pytest.mark.parametrize("permutation", ["MMK", "MMKN"])
def test_a_dimension_without_a_loop_may_stand_twice_in_a_permutation(permutation: str) -> None:
    found = answer(loops={"permutation": permutation}, strict=False)
    assert (found.cycles, round(found.energy_pj, 6)) == PLAIN
    with pytest.raises(SpecError, match='"M" stands twice'):
        answer(loops={"permutation": permutation})


@pytest.mark.parametrize("permutation", ["KKM", "MMN"])
def test_a_dimension_with_a_loop_stands_once_in_a_permutation(permutation: str) -> None:
    with pytest.raises(SpecError, match="stands twice"):
        answer(loops={"permutation": permutation}, strict=False)


def test_the_digits_before_a_point_are_a_factor() -> None:
    found = answer(loops={"factors": "K=2.0 M=1"}, strict=False)
    assert (found.cycles, round(found.energy_pj, 6)) == PLAIN
    with pytest.raises(SpecError, match=r'found "K=2\.0"'):
        answer(loops={"factors": "K=2.0"})


def test_an_infinite_bandwidth_is_none() -> None:
    inf = float("inf")
    assert answer(buffer={"bandwidth": inf}).cycles == 48
    assert answer(buffer={"read_bandwidth": ".inf", "write_bandwidth": 1}).cycles == 152
    with pytest.raises(SpecError, match="read_bandwidth: found 0"):
        answer(buffer={"read_bandwidth": 0})


@pytest.mark.parametrize(("word", "reduces"), [("yes", True), ("On", True), ("no", False), ("OFF", False)])
def test_truth_values_of_yaml_1_1_are_read(word: str, reduces: bool) -> None:
    document = deepcopy(GEMM)
    document["architecture"]["subtree"][0]["local"][1]["attributes"]["reduction_supported"] = word
    assert load(document).arch.levels[1].interconnect.reduction_supported is reduces


def test_ingresses_that_lose_all_their_words_are_listed() -> None:
    """An output whose outer level cannot reduce: twice the words less the partition leaves nothing of either kind."""
    found = evaluate(load({"architecture": {"arithmetic": {"name": "Mac", "word_bits": 16,
                      "instances": 120, "meshX": 30},
                      "storage": [{"name": "Buf0",
                                   "datawidth": 1,
                                   "block_size": 1,
                                   "depth": 64,
                                   "wire_energy": 0.25,
                                   "tile_width": 10,
                                   "vector-access-energy": 14.908,
                                   "n_banks": 2,
                                   "class": "smart_storage",
                                   "instances": 12,
                                   "meshY": 2},
                                  {"name": "Buf1",
                                   "word_width": 8,
                                   "width": 8,
                                   "reduction_supported": False,
                                   "technology": "DRAM",
                                   "instances": 1,
                                   "meshX": 1}]},
     "problem": {"version": "0.4",
                 "instance": {"L": 4, "P": 2, "G": 3, "C": 3, "D": 3, "k0": 3, "k1": 2, "k3": 1},
                 "shape": {"name": "affine",
                           "dimensions": ["L", "P", "G", "C", "D"],
                           "data_spaces": [{"name": "X0", "projection": [[["L"], ["D"]], [["C"]]]},
                                           {"name": "X1",
                                            "projection": [[["D", "k0"]], [["D", "k1"], ["L"], ["G"]],
                                                           [["G", "k2"]]]},
                                           {"name": "X2", "projection": [[["L"], ["D"]]]},
                                           {"name": "X3",
                                            "projection": [[["P"], ["D", "k3"]]],
                                            "read_write": True}],
                           "coefficients": [{"name": "k0", "default": 3}, {"name": "k1", "default": 1},
                                            {"name": "k2", "default": 2}, {"name": "k3", "default": 1}]}},
     "mapping": [{"target": "Buf0", "type": "datatype", "bypass": ["X1"]},
                 {"target": "Buf0", "type": "temporal", "factors": "G=1,L=1,D=1,C=1,P=1", "permutation": "DPGCL"},
                 {"target": "Buf0",
                  "type": "spatial",
                  "factors": "P=1,G=3,D=1,C=1,L=2",
                  "permutation": "PDCGL",
                  "split": 4},
                 {"target": "Buf1", "type": "datatype", "keep": ["X0", "X1", "X2", "X3"], "bypass": []},
                 {"target": "Buf1", "type": "temporal", "factors": "P=1,L=1,D=3,G=1,C=1", "permutation": "DCPLG"},
                 {"target": "Buf1",
                  "type": "spatial",
                  "factors": "D=1,L=2,P=2,G=1,C=3",
                  "permutation": "PDCGL",
                  "split": 4}]})).to_dict()
    network = next(one for one in found["networks"] if one["name"] == "Buf1 <==> Buf0")
    assert network["dataspaces"]["X3"] == {
        "fanout": 12, "multicast_factor": 6, "ingresses": [[6, 1, 0], [6, 2, 0]], "link_transfers": 12,
        "spatial_reductions": 0, "hops": 0}
