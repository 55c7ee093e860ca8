"""Bits per tensor: with the words of the levels every number stays, and other widths are those of a rescaled design."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_mapping

from fadiff_mapper import (
    FadiffError,
    InvalidMapping,
    SearchOptions,
    Spec,
    SpecError,
    evaluate,
    load,
    map_layer,
    map_layers,
)
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.tables import EnergyTable, storage_energy
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, layer_of
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.smooth import evaluate_smooth

LAYER = "layers/resnet18/conv3x3_64_128_28_s2"
SMALL = {"C": 8, "M": 12, "P": 8, "Q": 6, "R": 3, "S": 3}
NAMES = ("Weights", "Inputs", "Outputs")


def small(design: str, word_bits: int | None = None, **bits: Any) -> Spec:
    """A small strided convolution on a bundled design, all of whose levels have words of so many bits."""
    spec = load(find(f"arch/{design}"), find(LAYER), bits=bits)
    spec = replace(spec, problem=replace(spec.problem, bounds=dict.fromkeys(spec.problem.dimensions, 1) | SMALL))
    return spec if word_bits is None else with_levels(spec, [
        replace(level, word_bits=word_bits) for level in spec.arch.levels])


def with_levels(spec: Spec, levels: Sequence[StorageLevel]) -> Spec:
    """The design with other levels, at the energies per access that it has."""
    ert = tuple(EnergyTable(level.name, {"read": own.read, "write": own.fill, "update": own.update, "leak": own.leak})
                for level, own in ((level, storage_energy(level, spec.tables)) for level in spec.arch.levels))
    others = tuple(table for table in spec.tables.ert if table.component.split(".")[-1].split("[")[0] not in
                   spec.arch.level_names())
    return replace(spec, arch=replace(spec.arch, levels=tuple(levels)),
                   tables=replace(spec.tables, ert=(*others, *ert)))


def mappings(spec: Spec, count: int = 80) -> list[Mapping]:
    return [random_mapping(spec.arch, spec.problem, random.Random(seed)) for seed in range(count)]


def assert_same(one: Scores, other: Scores) -> None:
    for name in Scores.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    assert one.legal.any()


@pytest.mark.parametrize("design", designs())
def test_bits_of_the_words_change_no_number(design: str) -> None:
    one, other = small(design, 16), small(design, 16, **dict.fromkeys(NAMES, 16))
    assert layer_of(other).machine.element_words is not None
    nest = pack(mappings(one), one.problem)
    assert_same(*(score(layer_of(each), nest) for each in (one, other)))
    smooth, packed = (evaluate_smooth(layer_of(each), nest).cost for each in (one, other))
    np.testing.assert_array_equal(smooth.energy, packed.energy)
    np.testing.assert_array_equal(smooth.cycles, packed.cycles)
    for mapping in mappings(one, 20):
        try:
            expected = evaluate_mapping(one, mapping)
        except InvalidMapping as error:
            with pytest.raises(InvalidMapping, match=str(error).split("(")[0][:40]):
                evaluate_mapping(other, mapping)
        else:
            assert evaluate_mapping(other, mapping) == expected


def rescaled(spec: Spec, share: Fraction) -> Spec:
    """The same memories seen as words of another width: `share` of their own bits."""
    def per_word(amount: float | None) -> float | None:
        return None if amount is None else amount / float(share)

    def level(own: StorageLevel) -> StorageLevel:
        wires = own.interconnect
        return replace(
            own, word_bits=int(own.word_bits * share), block_size=int(own.block_size / share),
            size=None if own.size is None else int(own.size / share),
            addr_gen_energy=own.addr_gen_energy * float(share), read_bandwidth=per_word(own.read_bandwidth),
            write_bandwidth=per_word(own.write_bandwidth),
            shared_bandwidth=per_word(own.shared_bandwidth), interconnect=replace(
                wires, energy_per_hop=None if wires.energy_per_hop is None else wires.energy_per_hop * float(share),
                word_bits=int(wires.word_bits * share), router_energy=wires.router_energy * float(share),
                energy_per_ingress=wires.energy_per_ingress * float(share)))
    return with_levels(spec, list(map(level, spec.arch.levels)))


@pytest.mark.parametrize("design", designs())
@pytest.mark.parametrize("bits", [4, 8])
def test_tensors_of_one_width_are_those_of_a_design_of_such_words(design: str, bits: int) -> None:
    packed = small(design, 16, Weights=bits, Inputs=bits, Outputs={"bits": bits, "partial": bits})
    plain = rescaled(small(design, 16), Fraction(bits, 16))
    nest = pack(mappings(plain), plain.problem)
    found, expected = (score(layer_of(each), nest) for each in (packed, plain))
    assert found.legal.any() and not found.legal.all()
    assert expected.legal[found.legal].all()    # a tile takes whole words of 16 bits
    for name in ("cycles", "energy", "last_level_accesses"):
        np.testing.assert_array_equal(getattr(found, name)[found.legal], getattr(expected, name)[found.legal])


def hand_made(bits: dict[str, Any], factors: Sequence[str], order: str = "CM") -> Spec:
    """A matrix product with its loops, on a register file of 8-bit words below a memory of blocks of four."""
    level = {"class": "SRAM", "attributes": {"depth": 64, "word-bits": 8, "block-size": 4, "read_bandwidth": 2,
                                             "write_bandwidth": 2, "vector_access_energy": 3}}
    memory = {"name": "Memory", "class": "DRAM", "attributes": {"word-bits": 32, "block-size": 2,
                                                                "vector_access_energy": 100}}
    return load({
        "architecture": {"version": 0.3, "subtree": [{"name": "chip", "local": [
            memory, {"name": "Buffer", **level},
            {"name": "MAC", "class": "intmac", "attributes": {"word-bits": 8, "energy": 1}}]}]},
        "problem": {"shape": {"name": "product", "dimensions": ["C", "M"], "data_spaces": [
            {"name": "Weights", "projection": [[["C"]], [["M"]]]}, {"name": "Inputs", "projection": [[["C"]]]},
            {"name": "Outputs", "projection": [[["M"]]], "read_write": True}]},
            "instance": {"C": 6, "M": 4, "bits": bits}},
        "mapping": [{"target": name, "type": "temporal", "factors": loops, "permutation": order}
                    for name, loops in zip(("Memory", "Buffer"), factors, strict=True)]})


def test_accesses_cost_their_bits_and_partial_sums_theirs() -> None:
    # finished in the buffer: 24 weights of 4.25 bits, 6 inputs of 8, and 4 outputs that go out at 8
    spec = hand_made({"Weights": {"bits": 4, "scale": 8, "per": 32}, "Inputs": 8,
                      "Outputs": {"bits": 8, "partial": 24}}, ["C=1 M=1", "C=6 M=4"])
    memory, buffer = (level["dataspaces"] for level in reversed(evaluate(spec).levels))
    assert [memory[name]["energy_pj_per_instance"] for name in NAMES] == [200, 100, 100]   # of 102, 48 and 32 bits
    assert buffer["Weights"]["energy_pj_per_instance"] == (4 + 4) * 3      # 24 x 4.25 bits are 12.75 words, in and out
    assert buffer["Outputs"]["energy_pj_per_instance"] == (15 + 18) * 3    # 20 reads and 24 updates of 3 words
    assert buffer["Outputs"]["reads"] == 20 and buffer["Weights"]["utilized_capacity"] == 24    # elements
    # sums that memory finishes come and go as partial ones
    bits = {"Weights": 8, "Inputs": 8, "Outputs": {"bits": 8, "partial": 24}}
    split = hand_made(bits, ["C=2 M=2", "C=3 M=2"], order="MC")
    outputs = evaluate(split).levels[1]["dataspaces"]["Outputs"]
    assert outputs["energy_pj_per_instance"] == (2 + 3) * 100    # 4 read and 8 updated, of 24 bits each
    # the buffer finishes a sum before the next: only results go out
    whole = hand_made(bits, ["C=2 M=2", "C=3 M=2"])
    assert evaluate(whole).levels[1]["dataspaces"]["Outputs"]["energy_pj_per_instance"] == 100


def test_a_tile_takes_whole_words_of_each_tensor() -> None:
    def fits(depth: int) -> bool:
        spec = hand_made({"Weights": 3, "Inputs": 3, "Outputs": {"bits": 3, "partial": 3}}, ["C=1 M=1", "C=6 M=4"])
        levels = [replace(level, size=depth if level.name == "Buffer" else None) for level in spec.arch.levels]
        try:
            evaluate(replace(spec, arch=replace(spec.arch, levels=tuple(levels))))
        except InvalidMapping as error:
            assert error.level == "Buffer"
            return False
        return True
    assert fits(9 + 3 + 2) and not fits(13)     # 72, 18 and 12 bits in words of 8


@pytest.mark.parametrize(("bits", "message"), [
    ({"Weights": 0}, "input: problem.instance.bits.Weights: found 0; accepted: a whole number from 1 to 256"),
    ({"Weights": 300}, "input: problem.instance.bits.Weights: found 300; accepted: a whole number from 1 to 256"),
    ({"Weights": -4}, "input: problem.instance.bits.Weights: found -4; accepted: a whole number from 1 to 256"),
    ({"Weights": 2.5}, "input: problem.instance.bits.Weights: found 2.5; accepted: a whole number from 1 to 256"),
    ({"Weights": "wide"}, "input: problem.instance.bits.Weights: found a string ('wide'); accepted: a number"),
    ({"Wights": 4}, 'input: problem.instance.bits.Wights: unknown data space "Wights" (did you mean "Weights"?); '
                    "accepted: Weights, Inputs, Outputs"),
    ({"Weights": {"scale": 8, "per": 32}}, 'input: problem.instance.bits.Weights: the key "bits" is missing; '
                                           "accepted: bits"),
    ({"Weights": {"bits": 4, "partial": 8}}, "input: problem.instance.bits.Weights.partial: found partial sums of "
                                             '"Weights", which is read only; accepted: bits of partial sums of the '
                                             "output"),
    ({"Outputs": {"bits": 16, "partial": 8}}, "input: problem.instance.bits.Outputs.partial: found 8 bits; accepted: "
                                              "at least the 16 bits of an element"),
])
def test_wrong_bits_are_one_line(bits: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        hand_made(bits, ["C=1 M=1", "C=6 M=4"])
    assert str(caught.value) == message


def test_problems_that_differ_in_bits_alone_are_mapped_apart() -> None:
    specs = [load("bundled:arch/gemmini_small", f"bundled:{LAYER}", bits={"Weights": bits}) for bits in (8, 4)]
    together = map_layers(specs)
    assert [result.stats for result in together] == [map_layer(spec).stats for spec in specs]
    assert together[1].stats.edp < together[0].stats.edp


def test_what_does_not_know_bits_refuses_them() -> None:
    spec = small("gemmini_small", None, Weights=4)
    with pytest.raises(FadiffError, match=r"^certificate: found bits of tensors"):
        map_layer(spec, prove=True).certificate()


@pytest.mark.parametrize("model", ["refined", "paper"])
def test_the_descents_know_bits(model: str) -> None:
    pytest.importorskip("torch")
    options = SearchOptions(method="gradient", model=model, effort="light")
    wide, narrow = (map_layer(small("gemmini_small", None, **dict.fromkeys(NAMES, bits)), options) for bits in (8, 4))
    assert narrow.stats.edp < wide.stats.edp


def test_sensitivities_know_bits() -> None:
    spec = small("gemmini_small", None, Weights=4, Inputs=8, Outputs=8)
    found = map_layer(spec, sensitivities=True)
    priced = {(one.level, one.constant): one for one in found.sensitivities}["DRAM", "read"]
    cheaper = replace(spec, tables=replace(spec.tables, ert=tuple(
        replace(table, actions={**table.actions, "read": table.actions["read"] * 1.5}) if "DRAM" in table.component
        else table for table in spec.tables.ert)))
    after = evaluate_mapping(cheaper, found.mapping).energy_pj
    assert after - found.stats.energy_pj == pytest.approx(priced.derivative / found.stats.cycles * priced.value * 0.5)


def test_a_search_makes_use_of_narrow_weights_and_proves_it() -> None:
    wide, narrow = (map_layer(small("gemmini_small", None, **bits), prove=True) for bits in (
        {}, {"Weights": 4, "Inputs": 8, "Outputs": 8}))
    assert narrow.stats.edp < wide.stats.edp
    assert narrow.bound is not None and narrow.bound.of("edp") <= narrow.stats.edp
