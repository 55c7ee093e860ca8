"""Operators between the layers of a group: their cost on compute units, and the softmax in one pass, by hand.

The group is the attention of 6 queries to 12 keys, of 4 words each, on the bundled Gemmini; with units, on one with a
vector unit below the scratchpad.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf

import pytest
from fused_groups import conv, hardware, with_mappings

from fadiff_mapper.fusion import FusedGroup, FusedLayer, FusedLink, Hardware, Stay, TileLoop, group_cost
from fadiff_mapper.fusion.fused_group import LinkOperator
from fadiff_mapper.fusion.group_legality import group_violations, live_words
from fadiff_mapper.inputs.spec.arch import ComputeUnit, UnitOperation
from fadiff_mapper.inputs.spec.tables import storage_energy
from fadiff_mapper.output.looptree import beyond_looptree
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operations import one_pass_operations, total, vector_operator

QUERIES, KEYS, SIZE, LANES = 6, 12, 4, 4
SCORES = QUERIES * KEYS
ENERGY = {"max": 1.0, "add": 2.0, "mul": 3.0, "exp": 5.0, "div": 7.0}
CYCLES = {"max": 1, "add": 1, "mul": 1, "exp": 6, "div": 2}
SOFTMAX = LinkOperator(vector_operator(Node("softmax", "softmax", ("qk",), (QUERIES, KEYS), axes=(-1,)),
                                       [(QUERIES, KEYS)]), 0)


def with_unit() -> Hardware:
    machine = hardware()
    unit = ComputeUnit("VectorUnit", machine.level("Scratchpad"), 1, LANES, {
        name: UnitOperation(CYCLES[name], energy) for name, energy in ENERGY.items()})
    return replace(machine, arch=replace(machine.arch, units=(unit,)))


def attention(loops: list[tuple[str, int]], operators: tuple[LinkOperator, ...] = (SOFTMAX,), sums: str = "",
              doubled: bool = False) -> FusedGroup:
    link = FusedLink("Inputs", {"N": "N", "M": "C"}, Stay("Scratchpad"), operators=operators,
                     running=frozenset("M"))
    layers = (FusedLayer(conv("qk", N=QUERIES, C=SIZE, M=KEYS), {}),
              FusedLayer(conv("av", N=QUERIES, C=KEYS, M=SIZE), {}))
    return with_mappings(FusedGroup(layers, (link,), tuple(TileLoop(*loop) for loop in loops), sums=sums,
                                    double_buffered=frozenset({"Scratchpad"} if doubled else ())))


def spent(operations: dict[str, int]) -> tuple[float, float]:
    """Cycles and pJ of operations on the unit."""
    return (sum(number * CYCLES[name] for name, number in operations.items()) / LANES,
            sum(number * ENERGY[name] for name, number in operations.items()))


def scratchpad_pj(words: int) -> float:
    """pJ of so many words read from the scratchpad and written to it."""
    level = hardware().arch.levels[hardware().level("Scratchpad")]
    price = storage_energy(level, hardware().tables)
    return words * (price.read + price.update) / level.block_size


@pytest.mark.parametrize("loops", [[], [("N", 2)], [("N", 4)]])
def test_whole_rows_cost_the_softmax_of_every_score_on_the_unit(loops: list[tuple[str, int]]) -> None:
    plain, charged = attention(loops, ()), attention(loops)
    assert group_violations(with_unit(), charged) == []
    before, after = group_cost(with_unit(), plain), group_cost(with_unit(), charged)
    cycles, energy = spent({"max": SCORES, "add": 2 * SCORES, "exp": SCORES, "div": SCORES})
    assert after.layers == before.layers
    assert after.cycles == before.cycles + cycles
    assert after.energy_pj == pytest.approx(before.energy_pj + energy + scratchpad_pj(SCORES))
    assert after.busy["VectorUnit"] == cycles and after.busy["MACC"] == before.cycles
    assert after.bound == "MACC"


def test_units_and_layers_side_by_side_take_the_time_of_the_slowest() -> None:
    turn, side = attention([("N", 2)]), attention([("N", 2)], doubled=True)
    machine = with_unit()
    slow = replace(machine, arch=replace(machine.arch, units=(replace(machine.arch.units[0], lanes=1),)))
    for hardware_ in (machine, slow):
        one, both = group_cost(hardware_, turn), group_cost(hardware_, side)
        assert one.cycles == one.busy["MACC"] + one.busy["VectorUnit"]
        assert both.cycles == max(one.busy["MACC"], one.busy["VectorUnit"])
        assert both.energy_pj == one.energy_pj and both.busy == one.busy
    assert group_cost(slow, side).bound == "VectorUnit"
    home = machine.level("Scratchpad")  # 2 queries' scores, twice, and tiles that come and go, twice
    words = live_words(machine, turn, home)
    assert live_words(machine, side, home) == 2 * words


@pytest.mark.parametrize(("loops", "rest"), [
    ([("N", 2), ("C", 5)], ""), ([("C", 4)], ""), ([("C", 4), ("N", 2)], "DRAM"), ([("N", 3), ("C", 12)], "")])
def test_in_one_pass_sums_are_corrected_in_every_tile_of_keys_but_the_first(loops: list[tuple[str, int]],
                                                                            rest: str) -> None:
    fused = attention(loops, sums=rest)
    free = replace(fused, links=(replace(fused.links[0], operators=(), running=frozenset()),))
    assert group_violations(with_unit(), fused) == []
    before, after = group_cost(with_unit(), free), group_cost(with_unit(), fused)
    further = -(-KEYS // dict(loops)["C"]) - 1  # tiles of keys but the first
    assert fused.one_pass == (further > 0)
    sums, rows = further * QUERIES * SIZE, further * QUERIES
    moved = {name: {key: (words.reads, words.updates) for key, words in cost.layers[-1].traffic.items()}
             for name, cost in (("before", before), ("after", after))}
    reads, updates = moved["before"]["Accumulator", "Outputs"]
    assert moved["after"] == moved["before"] | {("Accumulator", "Outputs"): (reads + sums, updates + sums)}
    if further:
        cycles, energy = spent({"max": SCORES + rows, "add": 2 * SCORES + 2 * rows, "exp": SCORES + rows,
                                "mul": rows + sums, "div": QUERIES * SIZE})
        (own,) = after.operators
        assert own.cycles == cycles
        assert own.energy_pj == pytest.approx(energy + scratchpad_pj(SCORES + 2 * rows))


def test_the_statistics_of_rows_stay_while_tiles_of_keys_come_and_go() -> None:
    free = frozenset[str]()
    for loops, sums, rows in (([("N", 2), ("C", 4)], "", 2), ([("C", 4), ("N", 2)], "DRAM", QUERIES)):
        fused = attention(loops, sums=sums)
        plain = replace(fused, links=(replace(fused.links[0], running=free),))
        home = hardware().level("Scratchpad")
        assert live_words(hardware(), fused, home) - live_words(hardware(), plain, home) == 2 * rows


def test_without_units_the_softmax_itself_costs_nothing() -> None:
    loops = [("N", 2), ("C", 4)]
    fused = attention(loops, ())
    assert group_cost(hardware(), fused).operators == ()
    assert group_cost(hardware(), fused).layers == group_cost(with_unit(), attention(loops)).layers


def test_looptree_has_no_corrections() -> None:
    assert not any("one pass" in reason for reason in beyond_looptree(attention([("N", 2)]), hardware(), alike=True))
    assert any("one pass" in reason for reason in beyond_looptree(attention([("C", 4)]), hardware(), alike=True))


def test_the_operations_of_one_pass_are_those_of_a_program_that_does_it() -> None:
    """The program has the result of the softmax over whole rows, to rounding."""
    counted = dict.fromkeys(ENERGY, 0)

    def did(name: str, value: float) -> float:
        counted[name] += 1
        return value

    q, k, v = ([[((3 * row + 5 * column + shift) % 7) / 3 for column in range(SIZE)] for row in range(rows)]
               for shift, rows in enumerate((QUERIES, KEYS, KEYS)))
    scores = [[sum(a * b for a, b in zip(query, key, strict=True)) for key in k] for query in q]
    tile = 5
    for row in scores:
        highest, denominator, sums = -inf, 0.0, [0.0] * SIZE
        for start in range(0, KEYS, tile):
            part, values = row[start:start + tile], v[start:start + tile]
            local = -inf
            for score in part:
                local = did("max", max(local, score))
            weights = [did("exp", exp(did("add", score - local))) for score in part] if not start else []
            if start:
                running = did("max", max(local, highest))
                factor = did("exp", exp(did("add", highest - running)))
                denominator = did("mul", denominator * factor)
                sums = [did("mul", number * factor) for number in sums]
                local = running
                weights = [did("exp", exp(did("add", score - local))) for score in part]
            highest, added = local, 0.0
            for weight, value in zip(weights, values, strict=True):
                added = did("add", added + weight)
                sums = [number + weight * one for number, one in zip(sums, value, strict=True)]  # on the array
            denominator = did("add", denominator + added) if start else added
        result = [did("div", number / denominator) for number in sums]
        whole = [exp(score - max(row)) for score in row]
        assert result == pytest.approx([sum(w * value[e] for w, value in zip(whole, v, strict=True)) / sum(whole)
                                        for e in range(SIZE)])
    further = -(-KEYS // tile) - 1
    assert counted == total(one_pass_operations(SCORES, further * QUERIES, further * QUERIES * SIZE, QUERIES * SIZE))


def test_the_array_may_do_what_it_can_of_a_softmax_in_one_pass_besides_its_products() -> None:
    machine = with_unit()
    (slow,) = machine.arch.units
    array = replace(slow, name=machine.arch.arithmetic.name, lanes=1024,
                    operations={name: slow.operations[name] for name in ("max", "add", "exp")})
    both = replace(machine, arch=replace(machine.arch, units=(slow, array)))
    fused = attention([("C", 4)], doubled=True)
    layers, rows, sums = group_cost(both, fused).layers, 2 * QUERIES, 2 * QUERIES * SIZE
    cost = group_cost(both, fused)
    assert cost.operators[0].unit == "MACC and VectorUnit"
    products = sum(layer.cycles for layer in layers)
    assert cost.busy["MACC"] == products + SCORES * (1 + 2 + 6) / 1024
    assert cost.busy["VectorUnit"] == (rows * (1 + 2 + 6 + 1) + sums + QUERIES * SIZE * 2) / LANES
    assert cost.cycles == max(cost.busy.values())
