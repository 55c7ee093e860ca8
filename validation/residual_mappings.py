"""Random mappings with residual factors: those of a larger problem, cut off at the bounds."""

from __future__ import annotations

import random
from dataclasses import replace

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.model.loop_nest import cut_off, pack, unpack

from .random_mappings import random_mapping

KINDS = ("temporal", "spatial", "both")
"""Loops that may have residuals."""

ATTEMPTS = 50
"""Draws until a mapping has a residual; most of the first few have one."""


def residual_mapping(arch: Architecture, problem: Problem, rng: random.Random, kind: str) -> Mapping:
    """A random mapping with at least one residual; without one where none was drawn.

    Args:
        arch: The architecture.
        problem: The layer.
        rng: The source of all draws.
        kind: One of `KINDS`. Factors of other loops are lowered to divisors of what is left.
    """
    for _ in range(ATTEMPTS):
        padded = {name: bound if rng.random() < 0.4 else bound + rng.randint(0, 1 + bound // 2)
                  for name, bound in problem.bounds.items()}
        drawn = random_mapping(arch, replace(problem, bounds=padded), rng)
        nest = pack([_divided(drawn, problem, kind)], problem)
        mapping = unpack(cut_off(nest, list(problem.bounds.values())), 0, problem)
        if mapping.imperfect:
            break
    return mapping


def _divided(mapping: Mapping, problem: Problem, kind: str) -> Mapping:
    """The mapping with factors that divide what the loops inside leave, but for the kind that may have residuals."""
    left = dict(problem.bounds)
    levels = []
    for level in mapping.levels:
        chosen: dict[str, dict[str, int]] = {}
        for name in ("spatial", "temporal"):
            chosen[name] = {}
            for dim, factor in getattr(level, name).items():
                own = min(factor, left[dim])
                while kind not in (name, "both") and left[dim] % own:
                    own -= 1
                chosen[name][dim] = own
                left[dim] = -(-left[dim] // own)
        levels.append(replace(level, spatial=chosen["spatial"], temporal=chosen["temporal"]))
    return Mapping(tuple(levels))
