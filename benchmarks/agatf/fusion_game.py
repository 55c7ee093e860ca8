"""Fusion as a game of one player: from the front of the network on, how many operators to fuse next.

State: the operators that are left of the chain, the next 16 of them as embeddings, with the guide's prediction for each
action. Action: a group of the next 1 to 16 operators. Reward: minus the change of the logarithm of the exact plan's
EDP, so that the rewards of an episode add up to what the plan saves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log, log2

import numpy as np

from benchmarks.agatf.autoencoder import EMBEDDED
from benchmarks.agatf.embedded_space import EmbeddedSpace, capacity, lanes
from benchmarks.agatf.fusion_space import Nodes
from fadiff_mapper.workload import OperatingPoint

ACTIONS = 16
"""Operators of a group at most."""

OBSERVED = ACTIONS * (EMBEDDED + 2) + 2
"""Numbers of an observation."""

REWARD_SCALE = 10.0
"""Rewards and predictions are multiplied by it, so that groups of single layers count about 1. Set by hand."""


@dataclass(frozen=True)
class FusionState:
    """A network of which the front is planned.

    Attributes:
        chain: Number of the chain.
        position: First layer of the chain that is left.
        total: Energy and cycles of the network with the groups so far and all other layers one by one.
        groups: The groups so far.
    """

    chain: int
    position: int
    total: OperatingPoint
    groups: tuple[Nodes, ...] = ()


class FusionGame:
    """The rules on one network and design; it has no state of its own but a count of the groups that were asked for.

    Attributes:
        seen: The space.
        asked: Numbers of the groups whose exact cost was asked for.
    """

    def __init__(self, seen: EmbeddedSpace, predicted: Mapping[Nodes, OperatingPoint]):
        self.seen = seen
        self.asked: set[int] = set()
        self._predicted = predicted
        self._design = [log2(capacity(seen.arch)) / 32, log2(lanes(seen.arch)) / 16]

    def start(self, chain: int = 0, position: int = 0) -> FusionState:
        """The state in which nothing is fused and all before a layer is left as it is."""
        return FusionState(chain, position, self.seen.space.unfused)

    def over(self, state: FusionState) -> bool:
        """Whether no operator is left."""
        return state.chain == len(self.seen.space.chains)

    def group_of(self, state: FusionState, action: int) -> Nodes:
        """The layers that an action fuses; action 0 leaves one layer by itself."""
        return self.seen.space.chains[state.chain][state.position:state.position + action + 1]

    def allowed(self, state: FusionState) -> np.ndarray:
        """The actions that there are, [ACTIONS]: groups within the chain that can run as one step."""
        left = len(self.seen.space.chains[state.chain]) - state.position
        return np.array([action == 0 or (action < left and self.group_of(state, action) in self.seen.space.number)
                         for action in range(ACTIONS)])

    def predicted(self, state: FusionState) -> np.ndarray:
        """The guide's prediction of each action's reward, [ACTIONS]; 0 for a single layer and where there is none."""
        rewards = np.zeros(ACTIONS)
        for action in map(int, np.flatnonzero(self.allowed(state))):
            if action:
                rewards[action] = self._reward(state, self.group_of(state, action),
                                               self._predicted[self.group_of(state, action)])
        return rewards

    def observation(self, state: FusionState) -> np.ndarray:
        """The observation of the agent, [OBSERVED]."""
        nodes = self.group_of(state, ACTIONS - 1)
        rows = np.zeros((ACTIONS, EMBEDDED))
        rows[:len(nodes)] = [self.seen.embeddings[name] for name in nodes]
        return np.concatenate([rows.ravel(), self.predicted(state), self.allowed(state), self._design]
                              ).astype(np.float32)

    def step(self, state: FusionState, action: int) -> tuple[FusionState, float]:
        """Fuses the next operators.

        Args:
            state: The state.
            action: One less than the number of operators.

        Returns:
            The state after it and the reward; a group that cannot run leaves its layers one by one.
        """
        nodes = self.group_of(state, action)
        after = self._behind(state, len(nodes))
        if action == 0:
            return after, 0.0
        self.asked.add(self.seen.space.number[nodes])
        exact = self.seen.space.exact(nodes)
        if exact is None:
            return after, 0.0
        total = self._total_with(state, nodes, exact)
        return replace(after, total=total, groups=(*state.groups, nodes)), self._reward(state, nodes, exact)

    def _behind(self, state: FusionState, layers: int) -> FusionState:
        """The state behind some layers."""
        position = state.position + layers
        if position < len(self.seen.space.chains[state.chain]):
            return replace(state, position=position)
        return replace(state, chain=state.chain + 1, position=0)

    def _reward(self, state: FusionState, nodes: Nodes, point: OperatingPoint) -> float:
        return REWARD_SCALE * log(state.total.edp / self._total_with(state, nodes, point).edp)

    def _total_with(self, state: FusionState, nodes: Nodes, point: OperatingPoint) -> OperatingPoint:
        """Energy and cycles of the network with one group more."""
        alone = self.seen.space.layers_alone(nodes)
        return OperatingPoint(state.total.energy_pj - alone.energy_pj + point.energy_pj,
                              state.total.cycles - alone.cycles + point.cycles)
