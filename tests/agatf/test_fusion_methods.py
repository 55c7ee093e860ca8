"""Methods that cut a network into groups, on spaces small enough to try every cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.agatf.autoencoder import EMBEDDED, trained_embedding
from benchmarks.agatf.dqn import Agent
from benchmarks.agatf.embedded_space import EmbeddedSpace, architecture, distinct_features
from benchmarks.agatf.episodes import episode
from benchmarks.agatf.evaluation_orders import (
    Ledger,
    all_groups,
    all_that_fits,
    episode_plan,
    estimates_of,
    hopeful,
    plan_log_edp,
    played,
    until,
)
from benchmarks.agatf.fusion_game import FusionGame
from benchmarks.agatf.fusion_space import FusionSpace, Nodes, space_of_points
from benchmarks.agatf.operator_features import operator_features
from fadiff_mapper import Workload, load_network
from fadiff_mapper.workload import OperatingPoint

LAYERS = 6


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Six convolutions, one after the other."""
    file = tmp_path_factory.mktemp("networks") / "chain.yaml"
    sizes = (3, 8, 16, 16, 24, 8, 8)
    shapes = [f"  - {{id: s{i}, op: conv, dims: {{N: 1, M: {sizes[i + 1]}, C: {sizes[i]}, P: 8, Q: 8, R: 1, S: 1}}, "
              "stride: [1, 1]}" for i in range(LAYERS)]
    nodes = [f"  - {{name: l{i}, shape: s{i}, from: [{f'l{i - 1}' if i else 'x'}]}}" for i in range(LAYERS)]
    file.write_text("\n".join(["workload:", "  version: 1", "  name: chain", "  inputs: {x: [1, 3, 8, 8]}", "  shapes:",
                               *shapes, "  graph:", *nodes]))
    return load_network(file)


def small_space(chain: Workload, seed: int, steady: bool = True) -> FusionSpace:
    """A space with random costs, in which some groups cannot run.

    Args:
        chain: The network.
        seed: Of the costs.
        steady: Whether cycles go with energy, so that the best sum of prices is the best EDP.
    """
    rng, names = random.Random(seed), tuple(f"l{i}" for i in range(LAYERS))
    alone = {name: point(rng, rng.uniform(1, 4), steady) for name in names}
    exact: dict[Nodes, OperatingPoint | None] = {}
    for start in range(LAYERS):
        for stop in range(start + 2, LAYERS + 1):
            nodes = names[start:stop]
            energy = sum(alone[name].energy_pj for name in nodes) * rng.uniform(0.5, 1.3)
            exact[nodes] = None if rng.random() < 0.15 else point(rng, energy, steady)
    return space_of_points(chain, (names,), alone, exact)


def point(rng: random.Random, energy: float, steady: bool) -> OperatingPoint:
    return OperatingPoint(energy, energy * (1 if steady else rng.uniform(0.5, 2)))


def cuts(space: FusionSpace) -> Iterator[list[Nodes]]:
    """Every plan of a space, as its groups."""
    names = space.chains[0]
    for choice in range(2 ** (LAYERS - 1)):
        bounds = [0, *(i + 1 for i in range(LAYERS - 1) if choice >> i & 1), LAYERS]
        plan = [names[start:stop] for start, stop in pairwise(bounds) if stop - start > 1]
        if all(nodes in space.number and space.exact(nodes) for nodes in plan):
            yield plan


def optimum(space: FusionSpace) -> float:
    """Logarithm of the least EDP of all plans."""
    return min(plan_log_edp(space, plan) for plan in cuts(space))


@pytest.mark.parametrize("seed", range(8))
def test_dynamic_programming_over_all_groups_finds_the_best_of_all_cuts(chain: Workload, seed: int) -> None:
    space = small_space(chain, seed)
    assert all_groups(space).course[-1][1] == pytest.approx(optimum(space), abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_no_plan_is_below_the_best_of_all_cuts(chain: Workload, seed: int) -> None:
    space = small_space(chain, seed, steady=False)
    least = optimum(space) - 1e-12
    ledger, naive = all_that_fits(space)
    assert naive >= least
    for one in (ledger, all_groups(space), hopeful(space, estimates_of(space))):
        values = [value for _, value in one.course]
        assert min(values) >= least
        assert values == sorted(values, reverse=True)


def test_as_much_as_fits_takes_the_longest_group_that_can_run(chain: Workload) -> None:
    names = tuple(f"l{i}" for i in range(LAYERS))
    alone = dict.fromkeys(names, OperatingPoint(1.0, 1.0))
    exact = {names[i:j]: OperatingPoint(j - i, j - i) if j - i in (2, 4) else None
             for i in range(LAYERS) for j in range(i + 2, LAYERS + 1)}
    ledger, _ = all_that_fits(space_of_points(chain, (names,), alone, exact))
    assert ledger.known().keys() >= {names[:4], names[4:]}
    assert ledger.searches == 4    # of six, five, four and two layers


@pytest.mark.parametrize("seed", range(8))
def test_the_hopeful_order_with_true_predictions_pays_for_the_best_plan_alone(chain: Workload, seed: int) -> None:
    space = small_space(chain, seed)
    true = {nodes: exact for nodes in space.number if (exact := space.exact(nodes))}
    ledger = hopeful(space, true)
    assert ledger.course[-1][1] == pytest.approx(optimum(space), abs=1e-12)
    assert ledger.searches == len(space.best_cut(true))


def test_an_evaluation_is_paid_for_once(chain: Workload) -> None:
    space = small_space(chain, 0)
    ledger = Ledger(space)
    for _ in range(2):
        ledger.pay([("l0", "l1"), ("l2",)])
    assert ledger.searches == 1


def test_evaluations_until_near_an_edp() -> None:
    course = [(0, log(200)), (3, log(102)), (7, log(100.5)), (9, log(100))]
    assert until(course, log(100)) == 7
    assert until(course, log(90)) is None


def seen(space: FusionSpace) -> EmbeddedSpace:
    """A space with embeddings that tell its layers apart."""
    rows = np.random.default_rng(0).normal(size=(LAYERS, EMBEDDED)).astype(np.float32)
    return EmbeddedSpace(space, architecture("gemmini_small"), dict(zip(space.chains[0], rows, strict=True)))


@given(seed=st.integers(0, 100), actions=st.lists(st.integers(0, 15), min_size=LAYERS, max_size=LAYERS))
@settings(max_examples=20)
def test_rewards_add_up_to_what_the_plan_saves(chain: Workload, seed: int, actions: list[int]) -> None:
    space = small_space(chain, seed, steady=False)
    game = FusionGame(seen(space), estimates_of(space))
    state, rewards = game.start(), 0.0
    for action in actions:
        if not game.over(state):
            state, reward = game.step(state, action % int(game.allowed(state).sum()))
            rewards += reward
    while not game.over(state):
        state, reward = game.step(state, 0)
        rewards += reward
    assert rewards / 10 == pytest.approx(space.log_edp() - plan_log_edp(space, list(state.groups)), abs=1e-9)


def practised(space: FusionSpace, episodes: int) -> tuple[Agent, FusionGame]:
    """An agent after some episodes on a space, with predictions that promise nothing."""
    game = FusionGame(seen(space), {nodes: space.layers_alone(nodes) for nodes in space.number})
    agent = Agent(seed=0)
    for _ in range(episodes):
        episode(agent, game, 0, 0)
    return agent, game


@pytest.mark.parametrize("seed", (0, 2, 4))
def test_an_agent_finds_the_best_of_all_cuts_of_the_space_that_it_is_trained_on(chain: Workload, seed: int) -> None:
    space = small_space(chain, seed)    # of others, such as 1 and 3, it may find a worse cut and stay with it
    agent, game = practised(space, 60)
    ledger, own = played(agent, game, 0)
    assert own == pytest.approx(optimum(space), abs=1e-12)
    assert ledger.searches <= LAYERS // 2


def test_an_agent_depends_on_its_seed_alone(chain: Workload) -> None:
    space = small_space(chain, 1)
    plans = []
    for _ in range(2):
        agent, game = practised(space, 20)
        plans.append([episode_plan(agent, game, 0.1) for _ in range(5)])
    assert plans[0] == plans[1]


def test_embeddings_come_back_and_depend_on_the_seed_alone(chain: Workload) -> None:
    space = small_space(chain, 0)
    rows = distinct_features([FusionSpace(chain, "gemmini_small", space.chains, space.alone, space.joined, {}, ())],
                             ["vgg16"])
    first, again = (trained_embedding(rows, 1, steps=150) for _ in range(2))
    assert first.error < 0.2    # in standard deviations, squared; a mean would have 1
    features = operator_features(chain, architecture("gemmini_small"))
    for name in features:
        assert np.array_equal(first(features)[name], again(features)[name])


def test_features_tell_shapes_and_dependencies_apart(chain: Workload) -> None:
    features = operator_features(chain, architecture("gemmini_small"))
    assert features["l0"][-5] == 0 and features["l1"][-5] == 1    # tiles from the layer before
    assert features["l5"][-4] == 0 and features["l1"][-4] == 1    # tiles for the next layer
    assert len({tuple(row) for row in features.values()}) == LAYERS
