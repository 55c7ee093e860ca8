"""Why there is no legal mapping, in words: the fewest constraints, or the hardware, that are to blame."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from small_specs import QUICK, product

from fadiff_mapper import FadiffError, load, map_layer
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.diagnosis import attempt, diagnosis, smallest
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.mapspace.conflicts import Demand, demands, without


def target(name: str, kind: str, **said: object) -> dict[str, object]:
    return {"target": name, "type": kind, **said}


def constrained(*targets: dict[str, object], entries: int = 12, utilization: float = 0.0) -> Spec:
    """The matrix product of `test_search` (4 x 4 x 4, four units) with constraints and another buffer."""
    spec = product(mapspace_constraints={"targets": list(targets)})
    buffer, dram = spec.arch.levels
    levels = (replace(buffer, size=entries, min_utilization=utilization), dram)
    return replace(spec, arch=replace(spec.arch, levels=levels))


ALL_KEPT = target("Buffer", "bypass", keep=["A", "B", "Z"])
ALL_USED = target("Buffer", "utilization", min=1.0)

REASONS = {
    "contradictory factors": (
        constrained(target("Buffer", "temporal", factors="M=4"), target("DRAM", "temporal", factors="M=2")),
        ("no mapping can meet", "temporal M=4 at Buffer", "temporal M=2 at DRAM")),
    "spatial too large for the mesh": (
        constrained(target("Buffer", "spatial", factors="M=4 K=2")),
        ("no mapping can meet", "spatial M=4 at Buffer", "spatial K=2 at Buffer", "fan-out of 4 x 1")),
    "kept with too small a capacity": (
        constrained(ALL_KEPT, entries=2), ("no mapping can meet", "Buffer has room for 2 words", "at least 3")),
    "bypassed everywhere": (
        constrained(target("Buffer", "bypass", bypass=["A"]), target("DRAM", "bypass", bypass=["A"])),
        ("no mapping can meet", "A is kept nowhere", "bypass A at Buffer", "bypass A at DRAM")),
    "all units in use, but a buffer too small for it": (
        constrained(ALL_KEPT, ALL_USED, entries=7),
        ("can be legal (all", "keep A at Buffer", "keep B at Buffer", "keep Z at Buffer", "parallelism of 1")),
    "a least utilization that no tile meets": (
        constrained(target("Buffer", "bypass", bypass=["B", "Z"]), utilization=1.0),
        ("can be legal (all", "bypass B at Buffer", "bypass Z at Buffer", "minimum utilization 1 of Buffer")),
    "two loops where a split leaves one place": (
        constrained(target("Buffer", "spatial", factors="M=2 K=2", permutation="N", split=2)),
        ("no mapping can be legal under", "spatial M=2 at Buffer", "spatial K=2 at Buffer", "split=2")),
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_is_given_in_words(name: str) -> None:
    spec, words = REASONS[name]
    with pytest.raises(FadiffError) as refused:
        map_layer(spec, QUICK)
    for word in words:
        assert word in str(refused.value)


IDLE = (target("DRAM", "temporal", permutation="MKN"), target("Buffer", "temporal", factors="K<=4"))


def test_constraints_that_are_not_to_blame_are_not_named() -> None:
    with pytest.raises(FadiffError) as refused:
        map_layer(constrained(ALL_KEPT, ALL_USED, *IDLE, entries=7), QUICK)
    assert "DRAM" not in str(refused.value) and "K<=4" not in str(refused.value)


def test_what_is_only_searched_is_not_called_proven() -> None:
    """The same in a space that is too large to be enumerated: 6 words hold no tile of 4 products."""
    spec = constrained(ALL_KEPT, ALL_USED, entries=7)
    large = replace(spec, problem=replace(spec.problem, bounds=dict.fromkeys("MKN", 4096)))
    start = time.monotonic()
    with pytest.raises(FadiffError) as refused:
        map_layer(large, QUICK)
    said = str(refused.value)
    assert "no legal mapping was found in" in said and "can be legal" not in said
    assert "parallelism of 1" in said and "keep Z at Buffer" in said and "nearest mapping fails: " in said
    assert time.monotonic() - start < 25


def test_hardware_that_is_too_small_by_itself_is_named() -> None:
    spec = product()
    tiny = replace(spec.arch.levels[1], size=2)
    arch = replace(spec.arch, levels=(spec.arch.levels[0], tiny))
    layer = prepare_layer(arch, spec.problem, spec.tables)
    said = diagnosis(layer, build_mapspace(arch, spec.problem, spec.constraints))
    assert said.startswith("no mapping can be legal even without constraints: DRAM has room for 2 words")
    assert "tile M=4 K=4 N=4" in said


def test_dropping_a_demand_never_makes_a_space_smaller() -> None:
    for design in ("eyeriss_like", "simba_like", "output_stationary"):
        spec = load(find(f"arch/{design}"), find("layers/resnet18/conv3x3_64_64_56_s1"))
        space = build_mapspace(spec.arch, spec.problem, spec.constraints)
        for demand in demands(space):
            wide = without(space, [demand])
            for before, after in zip(space.levels, wide.levels, strict=True):
                for loops, more in ((before.temporal, after.temporal), (before.spatial, after.spatial)):
                    assert all(set(loops.choices[name]) <= set(more.choices[name]) for name in loops.choices)
                assert after.keep <= before.keep
        bare = without(space, demands(space))
        assert demands(bare) == []


def test_the_smallest_set_is_found_by_dropping_halves() -> None:
    asked = [Demand(str(number), "parallelism") for number in range(40)]
    blamed = {"3", "17", "38"}
    calls = []

    def empty(kept: list[Demand]) -> bool:
        calls.append(kept)
        return blamed <= {demand.words for demand in kept}

    core, minimal = smallest(asked, empty, time.monotonic() + 60)
    assert {demand.words for demand in core} == blamed and minimal and len(calls) < 40
    assert smallest(asked, empty, time.monotonic() - 1) == (asked, False)


def test_a_space_with_legal_mappings_is_recognised_quickly() -> None:
    for design in ("gemmini_small", "simba_like"):
        spec = load(find(f"arch/{design}"), find("layers/resnet18/conv3x3_64_64_56_s1"))
        found, _ = attempt(prepare_layer(spec.arch, spec.problem, spec.tables),
                           build_mapspace(spec.arch, spec.problem, spec.constraints))
        assert found is not None and found.legal and found.evaluations < 10_000
