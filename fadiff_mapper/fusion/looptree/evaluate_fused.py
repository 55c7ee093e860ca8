"""The exact cost of a fused mapping, as LoopTree counts it: accesses, operations, occupancy, energy.

Energy is the number of actions times the energy of an action in the input's ERT, per word. LoopTree's latency is not
modelled: its memory part counts accesses that its own actions leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.fusion.looptree.chain import leaf, paths
from fadiff_mapper.fusion.looptree.occupancy import Movement, StepOrder, axes_of
from fadiff_mapper.fusion.looptree.read_input import FusedInput, read_fused
from fadiff_mapper.fusion.looptree.tiling import Tiling, tilings
from fadiff_mapper.fusion.looptree.traffic import LevelAccesses, StorageNode, accesses, movements, peak_words


@dataclass(frozen=True)
class FusedStats:
    """Results for a fused mapping over the whole run.

    Attributes:
        components: names of the levels, outermost first; the last one computes.
        accesses: storage node -> words read and written.
        operations: layer -> operations, recomputation included.
        compute_steps: layer -> steps, where operations that run side by side share one.
        peak: storage node -> the most words that one unit holds.
        peak_words: level -> words that it must hold for all tensors.
        energy_pj: component -> pJ.
    """

    components: tuple[str, ...]
    accesses: Mapping[StorageNode, LevelAccesses]
    operations: Mapping[str, int]
    compute_steps: Mapping[str, int]
    peak: Mapping[StorageNode, int]
    peak_words: Mapping[int, int]
    energy_pj: Mapping[str, float]

    @property
    def total_energy_pj(self) -> float:
        """pJ of all components."""
        return sum(self.energy_pj.values())

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain values.

        Returns:
            accesses["component/tensor/layer"] with reads and writes, actions[component] with read, write or compute,
            ops[layer] with recomputation, compute_steps[layer], occupancy_max["component/tensor/layer"],
            capacity_peak_words[component], energy_pJ with total and every component.
        """
        return {
            "accesses": {self._name(storage): {"reads": count.reads, "writes": count.writes}
                         for storage, count in self.accesses.items()},
            "actions": actions(self.components, self.accesses, self.operations),
            "ops": dict(self.operations), "compute_steps": dict(self.compute_steps),
            "occupancy_max": {self._name(storage): words for storage, words in self.peak.items()},
            "capacity_peak_words": {self.components[level]: words for level, words in self.peak_words.items()},
            "energy_pJ": {"total": self.total_energy_pj} | dict(self.energy_pj),
        }

    def _name(self, storage: StorageNode) -> str:
        """The key component/tensor/layer."""
        return f"{self.components[storage.level]}/{storage.tensor}/{storage.einsum}"


def evaluate_fused(document: Mapping[str, Any] | str) -> FusedStats:
    """Computes LoopTree's counts for a fused mapping.

    Args:
        document: a `v4fused` input (problem, mapping, architecture, ERT), as a dict or as YAML text. Operations are
            enumerated one by one, so layers of up to some two million are accepted.

    Returns:
        Accesses, operations, steps, occupancy and energy.

    Raises:
        SpecError: a mistake in the input, with its place.
        FadiffError: the mapping is too large, or of a form that is not supported.
    """
    given = read_fused(document)
    tiles = tilings(given.chain, given.nodes)
    moved = movements(given.chain, given.nodes, tiles)
    counted = accesses(given.chain, given.nodes, moved)
    operations = {name: len(tile.operations) for name, tile in tiles.items()}
    return FusedStats(
        components=given.components, accesses=counted, operations=operations,
        compute_steps=_compute_steps(given, tiles), peak=_stored_peaks(moved, counted),
        peak_words=peak_words(given.nodes, moved),
        energy_pj=_energies(given, actions(given.components, counted, operations)))


def actions(components: tuple[str, ...], counted: Mapping[StorageNode, LevelAccesses],
            operations: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Actions of every component over all layers.

    Args:
        components: names of the levels, outermost first; the last one computes.
        counted: storage node -> words read and written.
        operations: layer -> operations.

    Returns:
        component -> read, write or compute -> count.
    """
    result: dict[str, dict[str, int]] = {}
    for storage, count in counted.items():
        row = result.setdefault(components[storage.level], {"read": 0, "write": 0})
        row["read"] += count.reads
        row["write"] += count.writes
    return result | {components[-1]: {"compute": sum(operations.values())}}


def _stored_peaks(moved: Mapping[StorageNode, Movement],
                  counted: Mapping[StorageNode, LevelAccesses]) -> dict[StorageNode, int]:
    """The most words at each storage node, without the arithmetic."""
    return {storage: moved[storage].peak for storage in counted}


def _compute_steps(given: FusedInput, tiles: Mapping[str, Tiling]) -> dict[str, int]:
    """Steps of every layer; operations side by side share one step."""
    result = {}
    for path in paths(given.nodes):
        in_order = [k for k, axis in enumerate(axes_of(path)) if axis.order is not StepOrder.SPATIAL]
        steps = tiles[leaf(path).einsum].steps[:, in_order]
        result[leaf(path).einsum] = len(np.unique(steps, axis=0))
    return result


def _energies(given: FusedInput, counts: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """pJ of every component: actions times the energy of an action. Raises FadiffError where one is missing."""
    result = {}
    for component, row in counts.items():
        table = given.energies.get(component, {})
        missing = [action for action, count in row.items() if count and action not in table]
        if missing:
            raise FadiffError(f'input: ERT.tables: "{component}" has no energy for {listed(missing)}; '
                              "accepted: a table with read and write for every level and compute for the last one")
        result[component] = sum(count * table[action] for action, count in row.items() if count)
    return result
