"""Gating and skipping of a dot product of 8 words whose first vector has 2 nonzeros, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_cases import Json

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.inputs.load import load
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.model.stats import Stats

VECTORS = {"name": "dot", "dimensions": ["K", "N"], "data_spaces": [
    {"name": "A", "projection": [[["K"]]]}, {"name": "B", "projection": [[["K"]]]},
    {"name": "Z", "projection": [[["N"]]], "read_write": True}]}
STORAGE = {"width": 8, "datawidth": 8, "metadata_storage_width": 8, "metadata_datawidth": 8, "meshX": 1, "meshY": 1}
ARCH = {"version": "0.4", "subtree": [{"name": "chip", "local": [
    {"name": "Main", "class": "DRAM", "attributes": STORAGE},
    {"name": "Buffer", "class": "storage", "attributes": {**STORAGE, "depth": 64, "metadata_storage_depth": 64}},
    {"name": "mac[1..8]", "class": "intmac", "attributes": {"datawidth": 8, "meshX": 8}}]}]}
ERT = {"version": "0.4", "tables": [
    {"name": f"chip.{name}", "actions": [{"name": action, "energy": 1.0} for action in ("read", "write", "compute")]}
    for name in ("Main[1..1]", "Buffer[1..1]", "mac[1..8]")]}


def dot(*options: tuple[str, Json], main: int = 1, buffer: int = 8, spatial: int = 1,
        bypassed: tuple[str, ...] = (), **densities: Any) -> Stats:
    """The statistics of loops over K at the levels and over the units, with options (level, option); A is a list.

    `bypassed`: tensors that the main memory does not keep.
    """
    targets = [{"name": level, "representation_format": {"data_spaces": [{"name": "A", "ranks": ranks}]},
                "action_optimization": [option for name, option in options if name == level]}
               for level, ranks in (("Main", [{"format": "CP"}] * 2), ("Buffer", [{"format": "CP"}]))]
    loops = (("Main", "temporal", main), ("Buffer", "temporal", buffer), ("Buffer", "spatial", spatial))
    stats = evaluate(load({
        "architecture": ARCH, "ERT": ERT, "sparse_optimizations": {"targets": targets},
        "problem": {"shape": VECTORS, "instance": {"K": main * buffer * spatial, "N": 1,
                                                   "densities": {"A": 0.25, **densities}}},
        "mapping": [{"target": level, "type": kind, "factors": f"K={factor} N=1", "permutation": "KN"}
                    for level, kind, factor in loops] + [
                        {"target": "Main", "type": "bypass", "bypass": list(bypassed)}]}))
    assert stats.sparse
    return stats


def option(kind: str, target: str, *leaders: str) -> Json:
    return {"type": kind, "target": target, "condition_on": list(leaders)}


def reads(stats: Stats, level: int, name: str) -> dict[str, int]:
    found: dict[str, int] = stats.levels[level]["dataspaces"][name]["reads"]
    return found


@pytest.mark.parametrize("kind", ["gating", "skipping"])
def test_an_access_is_saved_where_the_leader_has_a_zero(kind: str) -> None:
    stats = dot(("Buffer", option(kind, "B", "A")))
    saved = {"gating": "gated", "skipping": "skipped"}[kind]
    assert reads(stats, 0, "B") == {"algorithmic": 8, "actual": 2, "gated": 0, "skipped": 0, saved: 6}
    assert stats.arithmetic["computes"]["actual"] == 2


def test_a_tile_is_saved_where_the_leaders_part_of_its_stay_is_empty() -> None:
    """A tile of 2 words stays in the buffer while 2 words of A are looked at: empty with a probability of a half."""
    stats = dot(("Main", option("skipping", "B", "A")), main=4, buffer=2)
    assert reads(stats, 1, "B") == {"algorithmic": 8, "actual": 4, "gated": 0, "skipped": 4}


def test_of_several_leaders_one_that_is_empty_suffices() -> None:
    stats = dot(("Buffer", option("skipping", "Z", "A", "B")), B=0.5)
    updates = stats.levels[0]["dataspaces"]["Z"]["updates"]
    assert (updates["algorithmic"], updates["actual"]) == (8, 1)  # both are nonzero in an eighth of the computes


def test_of_alternatives_the_one_that_saves_most_counts() -> None:
    either = {"type": "skipping", "options": [{"target": "B", "condition_on": ["A"]},
                                              {"target": "A", "condition_on": ["B"]}]}
    stats = dot(("Buffer", either), B=0.5)
    assert reads(stats, 0, "B")["skipped"] == 6
    assert reads(stats, 0, "A")["skipped"] == 0


def test_a_list_stores_its_nonzeros_alone() -> None:
    stats = dot()
    assert reads(stats, 0, "A")["actual"] == 2
    assert stats.levels[0]["dataspaces"]["A"]["format_tile_size"] == [[2, 0]]


def test_units_without_a_nonzero_are_left_out() -> None:
    skips = [("Buffer", option("skipping_spatial", target, "A")) for target in "BZ"]
    stats = dot(*skips, buffer=1, spatial=8)
    assert stats.arithmetic["utilized_instances"] == 2  # as many as A has nonzeros
    assert stats.arithmetic["utilized_instances_average"] == 2
    assert dot(*skips[:1], buffer=1, spatial=8).arithmetic["utilized_instances"] == 8  # sums still go everywhere


def test_spatial_and_temporal_skipping_of_one_tensor_end_the_program() -> None:
    with pytest.raises(FadiffError, match="spatial and temporal skipping at the same time"):
        dot(("Buffer", option("skipping_spatial", "B", "A")), ("Buffer", option("skipping", "B", "A")), buffer=1,
            spatial=8)


def test_a_target_that_no_level_stores_is_refused() -> None:
    with pytest.raises(InvalidMapping, match="skipping/gating for Bdoes not have a source storage"):
        dot(("Main", option("skipping", "B", "A")), bypassed=("B",))
