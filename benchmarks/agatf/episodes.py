"""Episodes of the game, from which the agent learns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.agatf.dqn import EPSILON, Agent, Transition
from benchmarks.agatf.fusion_game import ACTIONS, OBSERVED, FusionGame

EPISODE = 100
"""Operators of an episode at most, as in AGATF."""


def practise(agent: Agent, games: Sequence[FusionGame], episodes: int, random: np.random.Generator) -> None:
    """Episodes on random networks, from random operators on.

    Args:
        agent: Learns on the way.
        games: The networks.
        episodes: Number of episodes.
        random: The source of random numbers.
    """
    for _ in range(episodes):
        game = games[int(random.integers(len(games)))]
        chains = game.seen.space.chains
        chain = int(random.choice(len(chains), p=np.array([len(names) for names in chains])
                                  / sum(map(len, chains))))
        episode(agent, game, chain, int(random.integers(len(chains[chain]))))


def episode(agent: Agent, game: FusionGame, chain: int, position: int) -> None:
    """Plays an episode; every move is remembered and learned from.

    Args:
        agent: The agent.
        game: The network.
        chain: The chain in which it begins.
        position: The layer there.
    """
    state, fused = game.start(chain, position), 0
    observation = game.observation(state)
    while not game.over(state) and fused < EPISODE:
        action = agent.act(observation, game.allowed(state), EPSILON, game.predicted(state))
        state, reward = game.step(state, action)
        fused += action + 1
        ended = game.over(state)
        after = np.zeros(OBSERVED, np.float32) if ended else game.observation(state)
        allowed = np.zeros(ACTIONS, bool) if ended else game.allowed(state)
        agent.remember(Transition(observation, action, reward, after, allowed))
        observation = after
