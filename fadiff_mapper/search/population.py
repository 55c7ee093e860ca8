"""Mappings as points of their map spaces: divisor numbers beside the nests that they stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fadiff_mapper.mapspace import NUMBER
from fadiff_mapper.model.loop_nest import Nest, columns
from fadiff_mapper.relaxation.layer_batch import LayerFamily


@dataclass(frozen=True)
class Population:
    """A batch of mappings of a family's members.

    member [B]          whose mapping it is
    number [P, D, B]    its factors as numbers of divisors (see `mapspace.tables`)
    nest                the same with the other decisions
    """

    member: np.ndarray
    number: np.ndarray
    nest: Nest

    def take(self, rows: Any) -> Population:
        """Some rows, by a slice or an index array."""
        return Population(self.member[rows], columns(self.number, rows), self.nest.take(rows))


def population_of(family: LayerFamily, nest: Nest, member: np.ndarray) -> Population:
    """Nests with their divisor numbers."""
    levels, dims, batch = nest.temporal.shape
    factors = np.stack([nest.spatial, nest.temporal], axis=1).reshape(2 * levels, dims, batch)
    divisor = family.factors.divisor[member].transpose(1, 0, 2)                                    # [D, B, N]
    number = np.stack([(divisor == place[..., None]).argmax(axis=-1).astype(NUMBER) for place in factors])
    return Population(member, number, nest)


def with_numbers(population: Population, number: np.ndarray, divisor: np.ndarray) -> Population:
    """The population with other factors; `divisor` [W, D, N] says which number is which."""
    spatial, temporal = factors_of(population.member, number, divisor)
    return replace(population, number=number, nest=replace(population.nest, spatial=spatial, temporal=temporal))


def factors_of(member: np.ndarray, number: np.ndarray, divisor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The spatial and the temporal factors, [L, D, B] each, that `number` [P, D, B] stands for."""
    dims, width = divisor.shape[1:]
    first = (member * dims + np.arange(dims)[:, None]) * width                                     # [D, B]
    return divisor.take(first + number[0::2]), divisor.take(first + number[1::2])


def put(population: Population, rows: np.ndarray, new: Population, taken: np.ndarray) -> None:
    """Replace some rows in place by the `taken` rows of another population."""
    for name in Nest.__dataclass_fields__:
        getattr(population.nest, name)[..., rows] = getattr(new.nest, name)[..., taken]
    population.number[..., rows] = new.number[..., taken]
