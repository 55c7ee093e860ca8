"""A deep Q-network with a replay buffer and a target network."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.agatf.fusion_game import ACTIONS, OBSERVED
from benchmarks.agatf.network_weights import adam_step, seed_weights

EPSILON = 0.1
"""Share of random actions, as in AGATF."""

HIDDEN, RATE, BATCH, KEPT, SYNCHRONISED = 96, 1e-3, 32, 20_000, 200
"""Width, step size, samples of a step, transitions kept, and steps between copies into the target. Set by hand."""


@dataclass(frozen=True)
class Transition:
    """A move of the agent.

    Attributes:
        observation: Before it, [OBSERVED].
        action: The action.
        reward: Its reward.
        after: The observation after it; zeros at the end.
        allowed: The actions after it; none at the end, [ACTIONS].
    """

    observation: np.ndarray
    action: int
    reward: float
    after: np.ndarray
    allowed: np.ndarray


class Agent:
    """The agent: its network, the slower target, and the moves that it remembers."""

    def __init__(self, seed: int):
        self._random = np.random.default_rng(seed)
        generator = torch.Generator().manual_seed(seed)
        self.network, self._target = _q_network(generator), _q_network(generator)
        self._target.load_state_dict(self.network.state_dict())
        self._step = adam_step(self.network, RATE, fused=True)
        self._memory: deque[Transition] = deque(maxlen=KEPT)
        self._steps = 0

    def act(self, observation: np.ndarray, allowed: np.ndarray, epsilon: float = 0.0,
            guide: np.ndarray | None = None) -> int:
        """Picks an action.

        Args:
            observation: As of `FusionGame.observation`, [OBSERVED].
            allowed: The actions that there are, [ACTIONS].
            epsilon: Share of random actions.
            guide: Predicted rewards; random actions are drawn in proportion to their exponentials. None: all alike.
        """
        if epsilon and self._random.random() < epsilon:
            weights = np.where(allowed, 1.0 if guide is None else np.exp(np.minimum(guide, 5.0)), 0.0)
            return int(self._random.choice(ACTIONS, p=weights / weights.sum()))
        with torch.no_grad():
            values = self.network(torch.from_numpy(observation)).numpy()
        return int(np.argmax(np.where(allowed, values, -np.inf)))

    def remember(self, transition: Transition) -> None:
        """Keeps a move, and learns from some of those that are kept."""
        self._memory.append(transition)
        if len(self._memory) >= BATCH:
            self._learn([self._memory[index] for index in self._random.integers(len(self._memory), size=BATCH)])

    def _learn(self, moves: list[Transition]) -> None:
        """Steps towards r + max Q(s', a'): rewards of an episode add up, so nothing is discounted."""
        with torch.no_grad():
            ahead = self._target(torch.from_numpy(np.stack([move.after for move in moves]))).numpy()
        allowed = np.stack([move.allowed for move in moves])
        best = np.where(allowed.any(1), np.where(allowed, ahead, -np.inf).max(1, initial=-np.inf), 0.0)
        wanted = torch.tensor(np.array([move.reward for move in moves]) + best, dtype=torch.float32)
        values = self.network(torch.from_numpy(np.stack([move.observation for move in moves])))
        picked = values.gather(1, torch.tensor([[move.action] for move in moves])).squeeze(1)
        self._step(torch.nn.functional.smooth_l1_loss(picked, wanted))
        self._steps += 1
        if self._steps % SYNCHRONISED == 0:
            self._target.load_state_dict(self.network.state_dict())


def _q_network(generator: torch.Generator) -> torch.nn.Module:
    network = torch.nn.Sequential(torch.nn.Linear(OBSERVED, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN),
                                  torch.nn.ReLU(), torch.nn.Linear(HIDDEN, ACTIONS))
    seed_weights(network, generator)
    return network
