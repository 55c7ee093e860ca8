"""The fused evaluation agrees with a run of the mapping step by step, on random small chains."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from fadiff_validation.looptree.evaluate_fused import Movement, StorageNode, movements, tilings
from fadiff_validation.looptree.fused_input import FusedInput, Loop, Storage, leaf, paths, read_fused
from fused_chains import random_document
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from looptree_oracle import observe, run

MOST_OPERATIONS = 1500
"""Larger chains are left out: the run by sets would take seconds."""


def evaluated(given_input: FusedInput) -> tuple[dict[StorageNode, Movement], dict[str, int]]:
    tiles = tilings(given_input.chain, given_input.nodes)
    moved = movements(given_input.chain, given_input.nodes, tiles)
    return moved, {name: len(tile.operations) for name, tile in tiles.items()}


def small(document: dict[str, Any]) -> bool:
    total = 0
    for layer in document["problem"]:
        extents = [int(part.split()[4]) for part in layer["instance"].split(" and ")]
        points = 1
        for extent in extents:
            points *= extent
        total += points
    return total <= MOST_OPERATIONS


def compare(document: dict[str, Any]) -> None:
    fused = read_fused(document)
    moved, operations = evaluated(fused)
    events = run(fused.chain, fused.nodes)
    assert operations == {name: len(steps) for name, steps in events.items()}
    for path in paths(fused.nodes):
        einsum = fused.chain.einsum(leaf(path).einsum)
        for place, node in enumerate(path):
            if not isinstance(node, Storage):
                continue
            last = max(k for k, other in enumerate(path) if isinstance(other, Storage) and other.level == node.level)
            feeding = {k for k, other in enumerate(path[:place]) if isinstance(other, Loop) and other.spatial
                       and next(below for below in path[k:] if isinstance(below, Storage)).level == node.level}
            for access in einsum.accesses:
                if access.tensor not in node.tensors:
                    continue
                seen = observe(events[einsum.name], einsum, access, place, last)
                found = moved[StorageNode(node.level, access.tensor, einsum.name)]
                assert found.peak == seen.peak()
                assert found.fills == seen.fills()
                if not found.peer_reads:
                    assert found.parent_reads == seen.parent_reads(
                        lambda unit, feeding=feeding: tuple(part for part in unit if part[0] not in feeding))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.randoms(use_true_random=False))
def test_every_node_holds_and_moves_what_a_run_by_sets_shows(rng: Random) -> None:
    document = random_document(rng)
    if small(document):
        compare(document)


@pytest.mark.parametrize("seed", range(25))
def test_chains_of_fixed_seeds(seed: int) -> None:
    rng = Random(seed)
    compare(next(document for document in iter(lambda: random_document(rng), None) if small(document)))
