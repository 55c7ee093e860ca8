"""Training: embedding, guide and agent, on some networks, to be tried on others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.agatf.autoencoder import Embedding, trained_embedding
from benchmarks.agatf.dqn import EPSILON, Agent, Transition
from benchmarks.agatf.embedded_space import EmbeddedSpace
from benchmarks.agatf.fusion_game import ACTIONS, OBSERVED, FusionGame
from benchmarks.agatf.fusion_space import FusionSpace
from benchmarks.agatf.guide import Guide, fitted_guide
from benchmarks.agatf.import_networks import INPUTS, network
from benchmarks.agatf.operator_features import operator_features
from fadiff_mapper import load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.network.layers.one_design import specs_of
from fadiff_mapper.spec.arch import Architecture

EPISODE = 100
"""Operators of an episode at most, as in AGATF."""


@dataclass(frozen=True)
class Trained:
    """What was learned, and what it cost.

    Attributes:
        embedding: Embeddings of operators.
        guide: The model of costs, relative to layers one by one.
        correction: The same for our estimates.
        agent: The agent.
        cpu_s: Seconds of processor time by step, without exact evaluations.
        asked: Groups that the agent asked for while it was trained, of all spaces.
        exact_s: Seconds of processor time that their exact evaluations took.
    """

    embedding: Embedding
    guide: Guide
    correction: Guide
    agent: Agent
    cpu_s: Mapping[str, float]
    asked: int
    exact_s: float


def trained(spaces: Sequence[FusionSpace], seed: int, episodes: int, others: Sequence[str] = ()) -> Trained:
    """Trains everything on some spaces.

    Args:
        spaces: Networks on designs with exact costs.
        seed: Seed of all parts.
        episodes: Episodes of the agent.
        others: Names of networks whose shapes the embedding learns from as well.
    """
    clock = [time.process_time()]
    embedding = trained_embedding(distinct_features(spaces, others), seed)
    seen = [embedded(space, embedding) for space in spaces]
    clock.append(time.process_time())
    guide, correction = fitted_guide(seen, seed), fitted_guide(seen, seed, corrects=True)
    clock.append(time.process_time())
    games = [FusionGame(one, guide.points(one)) for one in seen]
    agent = Agent(seed)
    practise(agent, games, episodes, np.random.default_rng(seed))
    clock.append(time.process_time())
    exact = sum(game.seen.space.groups[number].cpu_s for game in games for number in game.asked)
    return Trained(embedding, guide, correction, agent,
                   dict(zip(("embedding", "guide", "agent"), np.diff(clock).tolist(), strict=True)),
                   sum(len(game.asked) for game in games), exact)


def practise(agent: Agent, games: Sequence[FusionGame], episodes: int, random: np.random.Generator) -> None:
    """Episodes on random networks, from random operators on.

    Args:
        agent: Learns on the way.
        games: The networks.
        episodes: How many episodes.
        random: The source of random numbers.
    """
    for _ in range(episodes):
        game = games[int(random.integers(len(games)))]
        chains = game.seen.space.chains
        chain = int(random.choice(len(chains), p=np.array([len(names) for names in chains])
                                  / sum(map(len, chains))))
        episode(agent, game, chain, int(random.integers(len(chains[chain]))))


def episode(agent: Agent, game: FusionGame, chain: int, position: int) -> None:
    """One episode: every move is remembered and learned from.

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


def embedded(space: FusionSpace, embedding: Embedding) -> EmbeddedSpace:
    """A space with the embeddings of its operators."""
    arch = architecture(space.design)
    return EmbeddedSpace(space, arch, embedding(operator_features(space.workload, arch)))


def distinct_features(spaces: Sequence[FusionSpace], others: Sequence[str]) -> np.ndarray:
    """Features of all distinct operators of the spaces, and of other bundled or imported networks, [O, F]."""
    arch = architecture(spaces[0].design)
    networks = [space.workload for space in spaces] + [
        network(name) if name in INPUTS else load_network(f"bundled:networks/{name}") for name in others]
    rows = np.array([row for one in networks for row in operator_features(one, arch).values()])
    return np.unique(rows, axis=0)


@cache
def architecture(design: str) -> Architecture:
    """A bundled design; it is read with a problem, which plays no role."""
    return specs_of(load_network("bundled:networks/vgg16"), bundled_files.find(f"arch/{design}"))[0].arch
