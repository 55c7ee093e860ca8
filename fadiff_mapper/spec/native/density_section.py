"""Reads `densities` and `commonDensity` of a problem's instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.spec.densities import BANDED, FIXED, HYPERGEOMETRIC, Density
from fadiff_mapper.yaml.located import Map, Reader, anything, integer, mapping, number, text
from fadiff_mapper.yaml.place import Where

SPELLINGS = {"fixed": FIXED, "fixed_structured": FIXED, "hypergeometric": HYPERGEOMETRIC, "banded": BANDED,
             "diagonal": BANDED}
"""Timeloop's names of the distributions."""


def read_densities(instance: Map, names: Sequence[str]) -> dict[str, Density]:
    """The densities that an instance gives.

    `commonDensity` holds for every tensor, and hides `densities`, as in Timeloop.

    Args:
        instance: The problem's instance.
        names: Names of the data spaces.

    Returns:
        Density by data space; data spaces without one are left out.

    Raises:
        SpecError: An unknown data space or distribution, or a density outside [0, 1].
    """
    reader = Reader(instance)
    common = reader.take("commonDensity", anything, None)
    given = reader.take("densities", mapping, Map(where=instance.where))
    if common is not None:
        return dict.fromkeys(names, _density(common, reader.at("commonDensity")))
    unknown = [str(name) for name in given if name not in names]
    if unknown:
        raise given.at(unknown[0]).error(f'unknown data space "{unknown[0]}"{nearest(unknown[0], names)}',
                                         listed(names))
    return {str(name): _density(value, given.at(name)) for name, value in given.items() if value is not None}


def density_tree(densities: dict[str, Density]) -> dict[str, Any]:
    """Densities as plain YAML data, in the form that Timeloop's binaries read."""
    return {name: {"distribution": BANDED, "band_width": density.band_width} if density.distribution == BANDED
            else {"distribution": density.distribution, "density": density.density}
            for name, density in densities.items()}


def _density(value: Any, where: Where) -> Density:
    """A number is the density of the fixed distribution."""
    if not isinstance(value, dict):
        return Density(FIXED, _share(value, where))
    reader = Reader(mapping(value, where))
    word = reader.take("distribution", text)
    if word not in SPELLINGS:
        raise reader.at("distribution").error(f'unknown distribution "{word}"{nearest(word, list(SPELLINGS))}',
                                              listed(SPELLINGS))
    kind = SPELLINGS[word]
    share = reader.take("density", _share, 1.0 if kind == BANDED else None)
    band_width = reader.take("band_width", integer(0), 0)
    reader.take("workload_tensor_size", anything, None)  # Timeloop replaces it by the size of the tensor
    reader.finish(" of a density")
    if share is None:
        raise reader.node.where.error(f'the key "density" of the {word} distribution is missing',
                                      "a number from 0 to 1")
    return Density(kind, share, band_width)


def _share(value: Any, where: Where) -> float:
    share = float(number(0)(value, where))
    if share > 1:
        raise where.error(f"found a density of {share:g}", "a number from 0 to 1")
    return share
