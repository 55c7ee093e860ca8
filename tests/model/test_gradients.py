"""Derivatives: of the shared equations and the penalties they are exact, through the draw they are eq. (3)'s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff_mapper.base import bundled_files
from fadiff_mapper.gradient.gumbel_softmax import (
    ALPHA,
    FactorPlaces,
    decode,
    draw,
    gumbel,
    places_of,
)
from fadiff_mapper.gradient.loss import capacity, machine_limits, parallelism, spatial, validity
from fadiff_mapper.inputs.load import load
from fadiff_mapper.model.evaluate import NestEvaluation
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.smooth import evaluate_smooth
from fadiff_mapper.search.layer_family import DiscreteDecisions, family_of, random_decisions
from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace
from fadiff_mapper.search.mapspace.conflicts import check_mapping

DESIGNS = ("gemmini_small", "eyeriss_like", "simba_like")
BATCH = 3


@dataclass(frozen=True)
class Setting:
    layer: PreparedLayer
    space: MapSpace
    places: FactorPlaces
    choices: DiscreteDecisions


def theta_of(places: FactorPlaces, nest: Nest) -> torch.Tensor:
    """The parameters that stand exactly on the factors of given nests, [P, D, B]."""
    return torch.log2(torch.stack([torch.as_tensor((nest.spatial if is_spatial else nest.temporal)[level])
                                   for level, is_spatial in zip(places.level, places.spatial, strict=True)]))


@cache
def setting(design: str) -> Setting:
    """A convolution on a bundled design, with random loop orders."""
    spec = load(str(bundled_files.find(f"arch/{design}")), str(bundled_files.find("problems/conv")))
    problem = replace(spec.problem, bounds={"C": 16, "M": 24, "R": 3, "S": 5, "N": 2, "P": 12, "Q": 10})
    layer, space = prepare_layer(spec.arch, problem, spec.tables), build_mapspace(spec.arch, problem, spec.constraints)
    choices = random_decisions(family_of(layer, [space]), BATCH, np.random.default_rng(5))
    return Setting(layer, space, places_of([space]), choices)


def between(seed: int, *shape: int) -> torch.Tensor:
    """Numbers from 1.1 to 2.9, none of them whole."""
    generator = torch.Generator().manual_seed(seed)
    return 1.1 + 1.8 * torch.rand(shape, generator=generator, dtype=torch.float64)


def nest_of(here: Setting, temporal: torch.Tensor, spread: torch.Tensor) -> Nest:
    return Nest(temporal, spread, *map(torch.from_numpy, here.choices))


def factors(here: Setting, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    shape = here.choices.order.shape
    return between(seed, *shape).requires_grad_(True), between(seed + 1, *shape).requires_grad_(True)


def derivatives_hold(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
                     *inputs: torch.Tensor) -> bool:
    """Autograd against central differences, on the logarithm of each value: relative, whatever its size."""
    return torch.autograd.gradcheck(lambda *x: torch.log(function(*x)), inputs, eps=1e-6, atol=1e-5, rtol=1e-4,
                                    fast_mode=True)


QUANTITIES: dict[str, Callable[[NestEvaluation], torch.Tensor]] = {
    "tiles": lambda found: found.tile.size,
    "instances": lambda found: found.tile.instances,
    "updates": lambda found: found.counts.updates[found.counts.updates > 0],
    "reads": lambda found: found.counts.reads[found.counts.reads > 1],
    "fills": lambda found: found.counts.fills[found.counts.fills > 1],
    "cycles": lambda found: found.cost.cycles,
    "energy": lambda found: found.cost.energy,
}


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("design", DESIGNS)
def test_the_shared_equations_have_exact_derivatives(design: str, quantity: str) -> None:
    here = setting(design)

    def function(temporal: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
        return QUANTITIES[quantity](evaluate_smooth(here.layer, nest_of(here, temporal, spread)))

    assert derivatives_hold(function, *factors(here, seed=len(design)))


PENALTIES: dict[str, Callable[[Setting, Nest, NestEvaluation], torch.Tensor]] = {
    "spatial": lambda here, nest, found: spatial(machine_limits(here.layer.arch), found),
    "capacity": lambda here, nest, found: capacity(here.layer, machine_limits(here.layer.arch), nest, found),
    "parallelism": lambda here, nest, found: parallelism(here.layer, nest, 1e40),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("design", DESIGNS)
def test_penalties_have_exact_derivatives_and_point_back(design: str, name: str) -> None:
    here = setting(design)

    def function(temporal: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
        nest = nest_of(here, 2 * temporal, 2 * spread)
        return PENALTIES[name](here, nest, evaluate_smooth(here.layer, nest))

    temporal, spread = factors(here, seed=11)
    value = function(temporal, spread)
    assert (value > 0).all()
    assert derivatives_hold(function, temporal, spread)
    slopes = torch.autograd.grad(value.sum(), (temporal, spread), allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        after = function(*(x - 1e-3 * slope / slope.norm().clamp(min=1) for x, slope in
                           zip((temporal, spread), slopes, strict=True)))
    assert (after < value).all()


@pytest.mark.parametrize("design", DESIGNS)
def test_validity_has_exact_derivatives(design: str) -> None:
    """Eq. (21), with some factors below 1 and some dimensions overshot."""
    here = setting(design)
    theta = (4 * torch.rand(len(here.places.level), here.places.bound.shape[1], BATCH, dtype=torch.float64,
                            generator=torch.Generator().manual_seed(3)) - 1).requires_grad_(True)
    assert (validity(here.places, theta) > 0).all()
    assert torch.autograd.gradcheck(lambda x: validity(here.places, x), (theta,))


@pytest.mark.parametrize("design", DESIGNS)
def test_nothing_is_penalised_where_nothing_is_broken(design: str) -> None:
    here = setting(design)
    nest = nest_of(here, torch.ones(here.choices.order.shape, dtype=torch.float64),
                   torch.ones(here.choices.order.shape, dtype=torch.float64))
    found = evaluate_smooth(here.layer, nest)
    assert not spatial(machine_limits(here.layer.arch), found).any()
    assert not capacity(here.layer, machine_limits(here.layer.arch), nest, found).any()
    assert not parallelism(here.layer, nest, 0.0).any()
    assert not validity(here.places, torch.zeros(len(here.places.level), here.places.bound.shape[1], BATCH)).any()


# Through the draw.

def expected_factors(places: FactorPlaces, theta: torch.Tensor, noise: torch.Tensor, temperature: float,
                     drawn: torch.Tensor) -> torch.Tensor:
    """Eqs. (1) to (3), one place, dimension and row at a time, along the path of a discrete draw [P, D, B]."""
    expected = torch.ones_like(theta)
    for d in range(theta.shape[1]):
        divisors = sorted({int(value) for value in places.divisor[0, d]})
        for row in range(theta.shape[2]):
            rest = int(places.bound[0, d])
            for k in range(theta.shape[0]):
                shares = {divisor: torch.exp(-ALPHA * (theta[k, d, row] - np.log2(divisor)) ** 2 / temperature
                                             + noise[k, d, row, j])
                          for j, divisor in enumerate(divisors) if places.completable[0, k, d, divisors.index(rest), j]}
                expected[k, d, row] = sum(n * share for n, share in shares.items()) / sum(shares.values())
                rest //= round(float(drawn[k, d, row]))
    return expected


def by_place(places: FactorPlaces, found: Nest) -> torch.Tensor:
    """Factors per place, [P, D, B]."""
    return torch.stack([(found.spatial if is_spatial else found.temporal)[level]
                        for level, is_spatial in zip(places.level, places.spatial, strict=True)])


def drawing(here: Setting, seed: int, temperature: float) -> tuple[torch.Tensor, torch.Tensor, Nest]:
    """(theta, noise, the draw)."""
    generator = torch.Generator().manual_seed(seed)
    shape = len(here.places.level), here.places.bound.shape[1], BATCH
    theta = 3 * torch.rand(shape, generator=generator, dtype=torch.float64)
    noise = gumbel(here.places, BATCH, generator)
    theta.requires_grad_(True)
    return theta, noise, draw(here.places, theta, noise, temperature, here.choices)


@pytest.mark.parametrize(("design", "temperature"), [("gemmini_small", 4.0), ("eyeriss_like", 0.5)])
def test_the_draw_is_discrete_and_its_gradient_that_of_the_expectation(design: str, temperature: float) -> None:
    here = setting(design)
    theta, noise, found = drawing(here, 2, temperature)
    free = (1 - here.places.residual[0])[..., None] * between(9, *theta.shape)
    actual, = torch.autograd.grad((by_place(here.places, found) * free).sum(), theta)
    with torch.no_grad():  # along one path each factor depends on its own parameter only
        low, high = (expected_factors(here.places, theta + step, noise, temperature, by_place(here.places, found))
                     for step in (-1e-5, 1e-5))
    numeric = free * (high - low) / 2e-5
    assert torch.allclose(actual, numeric, rtol=1e-5, atol=1e-6)


@given(st.integers(0, 10_000), st.floats(0.01, 8.0), st.sampled_from(DESIGNS))
def test_every_draw_is_a_legal_factorization_within_the_constraints(seed: int, temperature: float, design: str) -> None:
    here = setting(design)
    _, _, found = drawing(here, seed, temperature)
    nest = decode(found)
    assert np.array_equal(nest.temporal, found.temporal.detach().numpy())
    assert np.array_equal((nest.temporal.prod(axis=0) * nest.spatial.prod(axis=0)).T,
                          [list(here.layer.problem.bounds.values())] * BATCH)
    for row in range(BATCH):
        assert check_mapping(here.space, unpack(nest, row, here.layer.problem)) == []


@given(st.integers(0, 10_000), st.sampled_from(DESIGNS))
@settings(max_examples=10)
def test_the_same_seed_gives_the_same_draw(seed: int, design: str) -> None:
    first, again = (drawing(setting(design), seed, 1.0) for _ in range(2))
    other = drawing(setting(design), seed + 1, 1.0)
    assert torch.equal(first[2].temporal, again[2].temporal) and torch.equal(first[2].spatial, again[2].spatial)
    assert not torch.equal(first[1], other[1])


@given(st.integers(0, 10_000), st.sampled_from(DESIGNS))
@settings(max_examples=20)
def test_a_cold_draw_stays_where_the_parameters_stand(seed: int, design: str) -> None:
    """From any nest to its parameters and back."""
    here = setting(design)
    nest = decode(drawing(here, seed, 2.0)[2])
    noise = gumbel(here.places, BATCH, torch.Generator().manual_seed(seed))
    again = draw(here.places, theta_of(here.places, nest), noise, 1e-3, here.choices)
    assert np.array_equal(decode(again).temporal, nest.temporal)
    assert np.array_equal(decode(again).spatial, nest.spatial)


@pytest.mark.parametrize("design", DESIGNS)
def test_restarts_do_not_see_each_other(design: str) -> None:
    """The gradient of one restart is the same alone as beside others."""
    here = setting(design)
    theta, noise, found = drawing(here, 4, 1.0)
    energy = evaluate_smooth(here.layer, found).cost.energy
    together, = torch.autograd.grad(energy.log().sum(), theta)
    for row in range(BATCH):
        rows = slice(row, row + 1)
        alone = DiscreteDecisions(*(getattr(here.choices, name)[..., rows]
                                    for name in DiscreteDecisions._fields))
        one = theta.detach()[..., rows].clone().requires_grad_(True)
        nest = draw(here.places, one, noise[:, :, rows], 1.0, alone)
        gradient, = torch.autograd.grad(evaluate_smooth(here.layer, nest).cost.energy.log().sum(), one)
        assert torch.allclose(gradient[..., 0], together[..., row], rtol=1e-12)
