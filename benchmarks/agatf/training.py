"""Training: embedding, guide and agent, on some networks, to be tried on others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.agatf.autoencoder import Embedding, trained_embedding
from benchmarks.agatf.dqn import Agent
from benchmarks.agatf.embedded_space import distinct_features, embedded
from benchmarks.agatf.episodes import practise
from benchmarks.agatf.fusion_game import FusionGame
from benchmarks.agatf.fusion_space import FusionSpace
from benchmarks.agatf.guide import Guide, fitted_guide


@dataclass(frozen=True)
class Trained:
    """Embedding, cost models and agent after training, and their cost.

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
