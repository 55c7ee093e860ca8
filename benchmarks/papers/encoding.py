"""Mappings of a layer as vectors of numbers in [0, 1), for optimisers that know nothing of mappings.

A gene stands for one choice. The factors of a dimension are chosen from the innermost place outwards, each among the
divisors that are left and that the places further out can complete, so that every vector has factors that multiply to
the bound. Other genes choose a loop order, a placement of spatial loops, or keep or bypass.

A mapping may still exceed a memory. Such a mapping is drawn towards the outermost level: its genes of temporal
factors are made smaller until it fits. So every vector stands for a legal mapping wherever that ends in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.search.layer_family import LayerFamily
from fadiff_mapper.search.mapping_task import MappingTask

LADDER = (*(0.8 ** step for step in range(16)), 0.0, 0.0)
"""By what the genes of temporal factors are multiplied: the first of these with which a mapping is legal counts. The
last step leaves every factor, spatial ones too, to the outermost level that may have it. Of random vectors of
ResNet-18's layers 0 to 1 % are legal as they are, and all are with one of these."""


@dataclass(frozen=True)
class FactorChoice:
    """The choice of one factor, as tables over what is left of the bound, by numbers of divisors.

    Attributes:
        place: The place of the loop.
        dimension: Its dimension.
        options: Divisors that may be taken, smallest first, [left, N]; the first `counts` of a row count.
        counts: Their number, [left].
    """

    place: int
    dimension: int
    options: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class Encoding:
    """The genes of a layer: first factors, then orders, placements, and keep or bypass.

    Attributes:
        task: The layer and its map space.
    """

    task: MappingTask

    @property
    def family(self) -> LayerFamily:
        """The layer with the tables of its map space."""
        return self.task.family

    @cached_property
    def factors(self) -> list[tuple[int, int]]:
        """(place, dimension) of each gene of a factor; a dimension's outermost open place takes what is left."""
        movable = self.family.factors.allowed[0].sum(axis=-1) > 1
        return [(int(place), d) for d in range(movable.shape[1]) for place in np.flatnonzero(movable[:, d])[:-1]]

    @cached_property
    def temporal(self) -> list[int]:
        """The genes of temporal factors."""
        return [number for number, (place, _) in enumerate(self.factors) if place % 2]

    @cached_property
    def orders(self) -> list[int]:
        """The level of each gene of a loop order."""
        return [level for level, candidates in enumerate(self.family.orders) if candidates.shape[1] > 1]

    @cached_property
    def layouts(self) -> list[int]:
        """The level of each gene of a placement of spatial loops."""
        return [level for level, placed in enumerate(self.family.layouts) if placed.order.shape[1] > 1]

    @cached_property
    def choices(self) -> list[int]:
        """For each gene that is no factor the number of its candidates."""
        return [*(self.family.orders[level].shape[1] for level in self.orders),
                *(self.family.layouts[level].order.shape[1] for level in self.layouts), *(2 for _ in self.family.keeps)]

    @property
    def size(self) -> int:
        """The number of genes."""
        return len(self.factors) + len(self.choices)

    @cached_property
    def factor_choices(self) -> list[FactorChoice]:
        """The choices of all factors that can differ from 1, from each dimension's innermost place outwards."""
        tables = self.family.factors
        looping = tables.allowed[0, ..., 1:].any(axis=-1)
        found = []
        for d in range(looping.shape[1]):
            for place in np.flatnonzero(looping[:, d]):
                may = tables.completable[0, place, d]
                found.append(FactorChoice(int(place), d, np.argsort(~may, axis=1, kind="stable"), may.sum(axis=1)))
        return found

    @cached_property
    def factor_counts(self) -> list[int]:
        """For each gene of a factor the number of its candidates where nothing has been taken from the bound yet."""
        most = {(choice.place, choice.dimension): int(choice.counts.max()) for choice in self.factor_choices}
        return [most[cell] for cell in self.factors]

    def nests(self, genes: np.ndarray) -> Nest:
        """The mappings of some vectors, [B, genes]; memories may be exceeded."""
        picks = [np.minimum((gene * count).astype(np.int64), count - 1)
                 for gene, count in zip(genes.T[len(self.factors):], self.choices, strict=True)]
        return nests_of(self.family, self._chosen(genes), self.orders, self.layouts, picks)

    def _chosen(self, genes: np.ndarray) -> np.ndarray:
        """Factors, [P, D, B]."""
        tables, batch = self.family.factors, len(genes)
        column = {cell: number for number, cell in enumerate(self.factors)}
        left = tables.bound[0][:, None].repeat(batch, axis=1)
        factors = np.ones((*tables.allowed.shape[1:3], batch))
        for choice in self.factor_choices:
            d, counts = choice.dimension, choice.counts[left[choice.dimension]]
            gene = column.get((choice.place, d))
            wanted = 0 if gene is None else np.minimum((genes[:, gene] * counts).astype(np.int64), counts - 1)
            pick = choice.options[left[d], wanted]
            factors[choice.place, d] = tables.divisor[0, d, pick]
            left[d] = tables.quotient[0, d, left[d], pick]
        return factors

    def fitted(self, genes: np.ndarray) -> tuple[Nest, Scores]:
        """The mappings of some vectors, drawn towards the outermost level until they are legal, and their scores."""
        ladder = np.repeat(genes[None], len(LADDER), axis=0)
        ladder[:, :, self.temporal] *= np.array(LADDER)[:, None, None]
        ladder[-1, :, :len(self.factors)] = 0.0
        nests = self.nests(ladder.reshape(-1, genes.shape[1]))
        scores = score(self.task.layer, nests)
        legal = scores.legal.reshape(len(LADDER), -1)
        step = np.where(legal.any(axis=0), legal.argmax(axis=0), len(LADDER) - 1)
        columns = step * len(genes) + np.arange(len(genes))
        return nests.take(columns), Scores(*(getattr(scores, name)[columns] for name in Scores.__dataclass_fields__))


def nests_of(family: LayerFamily, factors: np.ndarray, orders: Sequence[int], layouts: Sequence[int],
             picks: Sequence[np.ndarray]) -> Nest:
    """Mappings from factors [P, D, B] and the numbers of the candidates that were picked, [B] each.

    Args:
        family: A family of one.
        factors: Factors of all places.
        orders: Levels whose loop orders are picked; others have one candidate.
        layouts: Levels whose placement is picked.
        picks: For each of `orders`, `layouts` and the family's open keeps, in this order, the numbers.
    """
    batch, left = factors.shape[-1], list(picks)
    first = np.zeros(batch, dtype=np.int64)
    order = [candidates[0, left.pop(0) if level in orders else first].T
             for level, candidates in enumerate(family.orders)]
    placed = [(layout, left.pop(0) if level in layouts else first) for level, layout in enumerate(family.layouts)]
    space = family.spaces[0]
    keep = np.array([[name in level.keep for name in space.problem.dataspace_names()] for level in space.levels])
    keep = keep[..., None].repeat(batch, axis=-1)
    for (level, tensor), pick in zip(family.keeps, left, strict=True):
        keep[level, tensor] = pick > 0
    return Nest(*(np.ascontiguousarray(array) for array in (
        factors[1::2], factors[0::2], np.stack(order), keep,
        np.stack([layout.on_y[0, pick].T for layout, pick in placed]),
        np.stack([layout.order[0, pick].T for layout, pick in placed]))))

