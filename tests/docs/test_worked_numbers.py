"""Worked numbers of the pages on theory, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_specs
from fused_groups import conv, group

from fadiff_mapper import SearchOptions, evaluate, load, map_layer
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.prices import CoverPart, NetworkPrice, partition
from fadiff_mapper.fusion.tile_steps import intermediate_words, layer_steps, outlasting_words
from fadiff_mapper.gradient.gumbel_softmax import ALPHA
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import evaluate_one
from fadiff_mapper.model.smooth import distinct_windows
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.search.explanation.count_breakdown import explain_counts
from fadiff_mapper.search.lower_bound.assemble import lower_bound
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.workload import OperatingPoint


def product(loops: dict[str, tuple[str, str]], regs: bool = False, bypass: str = "", **buffer: float) -> Stats:
    """Z[M,N] += A[M,K] B[K,N] with all bounds 4; `loops`: level and type -> factors and permutation."""
    storage = [("DRAM", "DRAM", {}), ("Buf", "SRAM", {"entries": 1024, **buffer}),
               *([("Reg[0..3]", "regfile", {"entries": 64})] if regs else [])]
    local = [{"name": name, "class": kind, "attributes": {"word_bits": 16, **more}} for name, kind, more in storage]
    local.append({"name": "MAC[0..3]" if regs else "MAC", "class": "mac", "attributes": {"word_bits": 16}})
    directives: list[dict[str, Any]] = [
        {"target": at.split()[0], "type": at.split()[1], "factors": factors, "permutation": order}
        for at, (factors, order) in loops.items()]
    if bypass:
        directives.append({"target": "Reg", "type": "bypass", "bypass": [bypass]})
    return evaluate(load({
        "architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": local}]},
        "problem": {"shape": {"name": "product", "dimensions": ["M", "N", "K"], "data_spaces": [
            {"name": "A", "projection": [[["M"]], [["K"]]]}, {"name": "B", "projection": [[["K"]], [["N"]]]},
            {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True}]},
            "instance": {"M": 4, "N": 4, "K": 4}},
        "mapping": directives}))


def counts(stats: Stats, level: str, space: str) -> tuple[int, int, int]:
    """(reads, fills, updates)."""
    found = next(one for one in stats.levels if one["name"] == level)["dataspaces"][space]
    return found["reads"], found["fills"], found["updates"]


def test_demand_accesses_and_energy_of_a_product() -> None:
    stats = product({"Buf temporal": ("M2 N2", "MNK"), "DRAM temporal": ("M2 N2 K4", "MNK")})
    assert counts(stats, "Buf", "A")[1] == 32
    assert counts(stats, "Buf", "B")[1] == 16
    assert counts(stats, "Buf", "Z") == (48, 48, 64)
    assert counts(stats, "DRAM", "Z") == (48, 0, 64)
    dram = stats.levels[-1]
    assert dram["energy_pj_total"] == 32_000


def test_bandwidth_slows_a_product_down() -> None:
    stats = product({"Buf temporal": ("M4 N4 K4", "MNK")}, read_bandwidth=2, write_bandwidth=1.5)
    assert stats.cycles == 88


def test_a_bypassed_level_hands_its_traffic_outwards() -> None:
    loops = {"Reg temporal": ("M2", "MNK"), "Buf temporal": ("M2 N4", "MNK"), "Buf spatial": ("K4", "MNK")}
    kept, bypassed = product(loops, regs=True), product(loops, regs=True, bypass="B")
    assert counts(kept, "Reg", "B")[:2] == (16, 4)
    assert counts(kept, "Buf", "B")[0] == 16
    assert counts(bypassed, "Buf", "B")[0] == 64


def test_a_draw_among_the_divisors_of_twelve() -> None:
    divisor = np.array([[[1.0, 2, 3, 4, 6, 12]]])                                               # [W, D, N]
    free = np.ones((1, 1, 1, 6, 6), dtype=bool)
    left, start = np.zeros((1, 1, 6, 6), dtype=np.int64), np.full((1, 1), 5)
    hard, slope = np.empty((1, 1, 1)), np.empty((1, 1, 1))
    theta = np.log2(3)
    _kernel.draw_columns(np.full((1, 1, 1), theta), None, ALPHA, 1.0, np.zeros(1, dtype=np.int64), divisor, free, left,
                         start, hard, slope)
    logit = -ALPHA * (theta - np.log2(divisor[0, 0])) ** 2
    share = np.exp(logit) / np.exp(logit).sum()
    assert logit.round(2).tolist() == [-5.02, -0.68, 0, -0.34, -2, -8]
    assert share.round(3).tolist() == [0.003, 0.214, 0.425, 0.301, 0.057, 0.0]
    assert hard[0, 0, 0] == 3
    assert round(float(share @ divisor[0, 0]), 3) == 3.255
    assert round(float(slope[0, 0, 0]), 3) == 1.682


def test_windows_that_coincide_side_by_side() -> None:
    spatial, below = np.array([[4.0], [3.0]]), np.ones((2, 1))
    assert distinct_windows(spatial, below, ((0, 1), (1, 1)))[0] == 0.5


def test_the_bound_of_a_product_and_its_optimum() -> None:
    kept = {"target": "Buffer", "type": "datatype", "keep": ["A", "B", "Z"]}
    spec = small_specs.product(mapspace_constraints=[kept])
    accesses = map_layer(spec, SearchOptions(metrics=("last_level_accesses",), method="exhaustive"))
    edp = map_layer(spec, SearchOptions(metrics=("edp",), method="exhaustive"))
    assert accesses.bound and edp.bound
    assert accesses.value == round(accesses.bound.last_level_accesses) == 80
    task = mapping_task(spec)
    by_tiles = lower_bound(task.layer, task.space)
    assert by_tiles is not None and (int(edp.value), int(by_tiles.edp)) == (650_680, 646_932)
    assert edp.gap == 0     # the branch and bound behind it closes the rest


@pytest.mark.parametrize(("across", "rows", "between"), [("", 70, 0), ("P", 56, 7_168)])
def test_rows_and_words_of_a_fused_pair(across: str, rows: int, between: int) -> None:
    first = conv("first", C=3, M=64, P=56, Q=56, R=3, S=3)
    pair = group([first, conv("second", C=64, M=64, P=56, Q=56, R=3, S=3)], [("P", 7)], across,
                 padding={"P": 1, "Q": 1})
    steps = layer_steps(pair)[0]
    assert sum(len(span.done) for span in steps.spans[0]) == rows
    assert intermediate_words(pair.layers[0], pair.links[0], pair, steps) == 32_256
    assert outlasting_words(pair.layers[0], pair.links[0], pair, steps) == between


def test_the_cover_of_a_chain() -> None:
    alone = {name: OperatingPoint(10, 10) for name in "abc"}
    groups = {"ab": (14, 18), "bc": (12, 19), "abc": (24, 26)}
    plan = partition([("a", "b", "c")], alone, [CoverPart(tuple(name), OperatingPoint(*point), name)
                                                for name, point in groups.items()])
    assert [part.plan for part in plan] == ["abc"]
    covers = ([10, 10] * 3, [14, 18, 10, 10], [10, 10, 12, 19], [24, 26])
    for total, prices in ((OperatingPoint(30, 30), [2.0, 1.733, 1.7, 1.667]),
                          (OperatingPoint(24, 26), [2.404, 2.077, 2.032, 2.0])):
        points = [OperatingPoint(sum(one[::2]), sum(one[1::2])) for one in covers]
        assert [round(NetworkPrice(total)(point), 3) for point in points] == prices


def test_the_count_that_a_walk_follows() -> None:
    spec = load(*map(bundled_files.find, ("arch/gemmini_large", "layers/resnet18/conv3x3_64_64_56_s1",
                                          "mappings/gemmini_large")))
    stats = evaluate(spec)
    assert stats.levels[4]["name"] == "Scratchpad"
    assert stats.levels[4]["dataspaces"]["Inputs"]["reads"] == 3_612_672
    layer, found = evaluate_one(spec.arch, spec.problem, spec.tables, spec.mapping, details=True)
    sentences = [count.sentence() for count in explain_counts(layer, found)]
    page = (Path(__file__).parents[2] / "docs" / "develop" / "walks.md").read_text(encoding="utf-8")
    assert any(sentence in page for sentence in sentences if "= 3612672" in sentence)
    assert float(layer.machine.read[4, 0]) * 112_896 == pytest.approx(15_760_281.6)
