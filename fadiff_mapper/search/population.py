"""Mappings as points of their map spaces: numbers of divisors beside the nests that they stand for.

Moves and neighbours look up quotients and products of divisors in tables (`mapspace.factor_tables`), by the number of
each divisor in the ascending list of its dimension's divisors. The factors themselves follow from the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fadiff_mapper.mapspace import NUMBER
from fadiff_mapper.model.loop_nest import Nest, columns
from fadiff_mapper.relaxation.layer_batch import LayerFamily


@dataclass(frozen=True)
class Population:
    """A batch of B mappings of a family's members.

    Attributes:
        member: The member of the family that each mapping is of, [B].
        number: The factor at each of P places (2 l: spatial loops of level l, 2 l + 1: its temporal ones) as the
            number of a divisor of the dimension's bound, [P, D, B].
        nest: The same factors with the other decisions.
    """

    member: np.ndarray
    number: np.ndarray
    nest: Nest

    def take(self, rows: Any) -> Population:
        """Some rows, by a slice or an index array; copied."""
        return Population(self.member[rows], columns(self.number, rows), self.nest.take(rows))


def population_of(family: LayerFamily, nest: Nest, member: np.ndarray) -> Population:
    """A batch of nests with the numbers of their divisors.

    Args:
        family: The layers that the nests map.
        nest: B mappings whose factors divide the bounds.
        member: The member of the family that each mapping is of, [B].
    """
    levels, dims, batch = nest.temporal.shape
    factors = np.stack([nest.spatial, nest.temporal], axis=1).reshape(2 * levels, dims, batch)
    divisor = family.factors.divisor[member].transpose(1, 0, 2)                                    # [D, B, N]
    number = np.stack([(divisor == factor[..., None]).argmax(axis=-1).astype(NUMBER) for factor in factors])
    return Population(member, number, nest)


def with_numbers(population: Population, number: np.ndarray, divisor: np.ndarray) -> Population:
    """The population with other factors.

    Args:
        population: B mappings.
        number: Numbers of the new factors, [P, D, B].
        divisor: The divisors of every member's bounds, [W, D, N].
    """
    spatial, temporal = factors_of(population.member, number, divisor)
    return replace(population, number=number, nest=replace(population.nest, spatial=spatial, temporal=temporal))


def factors_of(member: np.ndarray, number: np.ndarray, divisor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The spatial and the temporal factors, [L, D, B] each, that `number` [P, D, B] stands for.

    One look-up in the flattened table of divisors [W, D, N], which is faster than three index arrays.
    """
    dims, width = divisor.shape[1:]
    first = (member * dims + np.arange(dims)[:, None]) * width                                     # [D, B]
    return divisor.take(first + number[0::2]), divisor.take(first + number[1::2])


def put(population: Population, rows: np.ndarray, new: Population, taken: np.ndarray) -> None:
    """Replaces some rows in place.

    Args:
        population: The mappings that are changed; a row keeps its member.
        rows: The rows that are replaced.
        new: The mappings that come in.
        taken: For each of `rows` the row of `new` that takes its place.
    """
    for name in Nest.__dataclass_fields__:
        getattr(population.nest, name)[..., rows] = getattr(new.nest, name)[..., taken]
    population.number[..., rows] = new.number[..., taken]
