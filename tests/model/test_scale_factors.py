"""Scale factors as a share of each element, beside scale factors as a tensor of their own.

The tensor of scale factors is an ordinary data space of a problem whose summed dimension is cut in two: G blocks of B
elements. It has the bits of a scale factor.
"""

from __future__ import annotations

from typing import Any

import pytest

from fadiff_mapper import Stats, evaluate, load
from fadiff_mapper.output.terminal.layers import print_stats

PER, BOUNDS = 32, {"N": 4, "M": 8, "C": 128}
ARCH = {"architecture": {"version": 0.4, "subtree": [{"name": "system", "local": [
    {"name": "DRAM", "class": "DRAM", "attributes": {"word-bits": 16, "block-size": 1, "shared_bandwidth": 4}}],
    "subtree": [{"name": "chip", "local": [
        {"name": "Buffer", "class": "SRAM", "attributes": {"word-bits": 16, "block-size": 1, "entries": 4096}},
        {"name": "MAC", "class": "intmac", "attributes": {"word-bits": 8}}]}]}]}}
ACCESSES = ("reads", "fills", "updates")


def space(name: str, *ranks: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "projection": list(ranks), **more}


def shared(factors: tuple[str, str], orders: tuple[str, str]) -> Stats:
    """Each element brings its share of the scale factor."""
    shape = {"name": "shared", "dimensions": list("NMC"), "data_spaces": [
        space("Weights", [["M"]], [["C"]]), space("Inputs", [["N"]], [["C"]]),
        space("Outputs", [["N"]], [["M"]], read_write=True)]}
    return evaluated(shape, dict(BOUNDS), {"Weights": {"bits": 4, "scale": 16, "per": PER}}, factors, orders)


def apart(factors: tuple[str, str], orders: tuple[str, str]) -> Stats:
    """The scale factors are a data space."""
    both = [["G", "per"], ["B"]]
    shape = {"name": "apart", "dimensions": list("NMGB"), "coefficients": [{"name": "per", "default": PER}],
             "data_spaces": [space("Weights", [["M"]], both), space("Scales", [["M"]], [["G"]]),
                             space("Inputs", [["N"]], both), space("Outputs", [["N"]], [["M"]], read_write=True)]}
    return evaluated(shape, {"N": 4, "M": 8, "G": 4, "B": PER}, {"Weights": 4, "Scales": 16}, factors, orders)


def evaluated(shape: dict[str, Any], bounds: dict[str, int], bits: dict[str, Any], factors: tuple[str, str],
              orders: tuple[str, str]) -> Stats:
    mapping = [{"target": target, "type": "temporal", "factors": own, "permutation": order}
               for target, own, order in zip(("DRAM", "Buffer"), factors, orders, strict=True)]
    return evaluate(load({**ARCH, "problem": {"shape": shape, "instance": {**bounds, "bits": {
        **bits, "Inputs": 16, "Outputs": 16}}}, "mapping": mapping}, energy="built-in"))


def at(stats: Stats, level: str, name: str) -> Any:
    return next(each for each in stats.levels if each["name"] == level)["dataspaces"][name]


@pytest.mark.parametrize(("own", "split"), [
    ((("N2 M2 C2", "N2 M4 C64"), ("CNM", "CMN")), (("N2 M2 G2 B1", "N2 M4 G2 B32"), ("BGNM", "BGMN"))),
    ((("N2 M2 C1", "N2 M4 C128"), ("CNM", "CMN")), (("N2 M2 G1 B1", "N2 M4 G4 B32"), ("BGNM", "BGMN"))),
    ((("N2 M2 C8", "N2 M4 C16"), ("NCM", "CMN")), (("N2 M2 G4 B2", "N2 M4 G1 B16"), ("NBGM", "BGMN"))),
])
def test_they_move_alike_where_blocks_are_whole_or_cut_by_the_innermost_loop(own: Any, split: Any) -> None:
    together, alone = shared(*own), apart(*split)
    dram = at(together, "DRAM", "Weights")
    assert dram["scale_factors"]["reads"] == at(alone, "DRAM", "Scales")["reads"]
    assert dram["scale_factors"]["utilized_capacity"] == at(alone, "DRAM", "Scales")["utilized_capacity"]
    assert dram["energy_pj_total"] == pytest.approx(
        sum(at(alone, "DRAM", name)["energy_pj_total"] for name in ("Weights", "Scales")))
    assert at(together, "Buffer", "Weights")["scale_factors"]["fills"] == at(alone, "Buffer", "Scales")["fills"]


def test_a_block_that_an_outer_loop_cuts_has_its_scale_factor_brought_again_as_a_tensor() -> None:
    """C in halves of blocks outside of M: by the time the other half comes, the buffer holds other factors."""
    together = shared(("N2 M2 C8", "N2 M4 C16"), ("NMC", "CMN"))
    alone = apart(("N2 M2 G4 B2", "N2 M4 G1 B16"), ("NMBG", "BGMN"))
    assert at(together, "DRAM", "Weights")["reads"] == at(alone, "DRAM", "Weights")["reads"]
    assert 2 * at(together, "DRAM", "Weights")["scale_factors"]["reads"] == at(alone, "DRAM", "Scales")["reads"]


def test_the_arithmetic_takes_one_for_each_element_as_a_tensor_and_the_share_of_a_block_else() -> None:
    together = shared(("N2 M2 C2", "N2 M4 C64"), ("CNM", "CMN"))
    alone = apart(("N2 M2 G2 B1", "N2 M4 G2 B32"), ("BGNM", "BGMN"))
    assert at(alone, "Buffer", "Scales")["reads"] == alone.computes
    assert at(together, "Buffer", "Weights")["scale_factors"]["reads"] == together.computes / PER


def test_their_words_are_in_the_table_and_only_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    stats = shared(("N2 M2 C2", "N2 M4 C64"), ("CNM", "CMN"))
    print_stats(stats)
    said = capsys.readouterr().out
    assert "scales of Weights" in said and "scales of Inputs" not in said
    assert "scale_factors" not in at(stats, "DRAM", "Inputs")
    assert {name: 4 * value for name, value in at(stats, "Buffer", "Weights")["scale_factors"].items()} == {
        "utilized_capacity": 4 * 256 / PER, **{name: 4 * at(stats, "Buffer", "Weights")[name] / PER
                                               for name in ACCESSES}}
