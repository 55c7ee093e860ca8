"""A small neural network from the shape of an SRAM to its energies and area, fitted to figures of CACTI.

FADiff (arXiv 2511.22348, section 2.1) models the energy per access of on-chip buffers as a small multi-layer
perceptron of their capacity; here depth, width, technology, banks and ports are inputs, and leakage and area outputs
as well. Every path from a `RISING` input to an output has positive weights, so that a larger memory never costs less:
CACTI's own figures rise in the large and jump up and down in the small, where a search must not follow them.
`validation/train_sram_network.py` fits the network and records its errors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from fadiff_mapper.base import bundled_files

INPUTS = ("depth", "width_bits", "technology_nm", "n_banks", "n_rw_ports")
"""Axis of the inputs, in order."""
RISING = ("depth", "width_bits", "n_rw_ports")
"""Inputs with which every output rises."""
OUTPUTS = ("read_pj", "write_pj", "leak_pj", "area_um2")
"""Axis of the outputs, in order; leakage in pJ per cycle of 1 ns."""

LEAST_ROWS = 64
LEAST_BITS = 32
"""The smallest bank about which Accelergy's plug-in asks CACTI; it scales smaller ones, which `asked` repeats."""
DECODER = 0.3
"""Share of an access that a narrow line does not save."""
FEW_ROWS = 0.78
"""Exponent of an access in the rows of a bank below `LEAST_ROWS`."""


@dataclass(frozen=True)
class SramRegressor:
    """A fully connected network of binary logarithms, normalised on both sides, beside a power law.

    Attributes:
        shift: Means that are taken off the logarithms, (inputs [5], outputs [4]).
        scale: Deviations by which they are divided, (inputs [5], outputs [4]).
        skip: Exponents of the power law on normalised logarithms, [4, 5]: it carries the slopes beyond the figures,
            where tanh is flat.
        layers: (weights [out, in], bias [out]) of each layer; tanh between them.
        held_out: Mean and worst relative error of each output on figures that the fit has not seen.
        worst: Largest relative error of each output on any figure.
        least: The smallest inputs that the fit has seen.
        most: The largest inputs that the fit has seen.
    """

    shift: tuple[np.ndarray, np.ndarray]
    scale: tuple[np.ndarray, np.ndarray]
    skip: np.ndarray
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    held_out: dict[str, tuple[float, float]]
    worst: dict[str, float]
    least: tuple[float, ...]
    most: tuple[float, ...]

    def estimate(self, memories: Any) -> Any:
        """Estimates energies and areas.

        Args:
            memories: `INPUTS` of the memories, [..., 5], an array of NumPy or torch.

        Returns:
            `OUTPUTS`, [..., 4], in pJ and um^2; differentiable in the inputs.
        """
        xp = array_namespace(memories)
        memories, share = asked(memories)

        def constant(values: np.ndarray) -> Any:
            return values if isinstance(memories, np.ndarray) else xp.asarray(values, dtype=memories.dtype)

        inputs = (xp.log2(memories) - constant(self.shift[0])) / constant(self.scale[0])
        values = inputs
        for index, (weights, bias) in enumerate(self.layers):
            values = values @ constant(weights.T) + constant(bias)
            values = values if index == len(self.layers) - 1 else xp.tanh(values)
        values = values + inputs @ constant(self.skip.T)
        return share * 2 ** (values * constant(self.scale[1]) + constant(self.shift[1]))

    def covers(self, memory: Sequence[float]) -> bool:
        """Whether a memory, 5 numbers, lies within the recorded range of every input."""
        return all(least <= value <= most for least, value, most in zip(self.least, memory, self.most, strict=True))


def asked(memories: Any) -> tuple[Any, Any]:
    """Banks too small for CACTI as Accelergy's plug-in prices them: shares of larger ones.

    Args:
        memories: `INPUTS`, [..., 5], NumPy or torch.

    Returns:
        `INPUTS` of the memories about which CACTI is asked, [..., 5], and the share of each of their `OUTPUTS`,
        [..., 4]. Leakage and area are proportional to rows and bits; an access is not.
    """
    xp = array_namespace(memories)
    depth, width, banks = memories[..., 0], memories[..., 1], memories[..., 3]
    rows, bits = xp.maximum(depth, LEAST_ROWS * banks), xp.maximum(width, LEAST_BITS + 0 * width)
    few, narrow = depth / rows, width / bits
    access, whole = ((1 - DECODER) * narrow + DECODER) * few ** FEW_ROWS, narrow * few
    larger = xp.stack([rows, bits, *(memories[..., i] for i in range(2, len(INPUTS)))], axis=-1)
    return larger, xp.stack([access, access, whole, whole], axis=-1)


@cache
def sram_regressor() -> SramRegressor:
    """The bundled network, read once."""
    return from_dict(json.loads((bundled_files.root() / "figures" / "sram_network.json").read_text(encoding="utf-8")))


def from_dict(content: dict[str, Any]) -> SramRegressor:
    """The network that the content of a file such as `figures/sram_network.json` describes."""
    def pair(key: str) -> tuple[np.ndarray, np.ndarray]:
        return np.array(content[key]["inputs"]), np.array(content[key]["outputs"])

    held_out, fit = content["held_out_error"], content["fit_error"]
    return SramRegressor(
        shift=pair("shift"), scale=pair("scale"), skip=np.array(content["skip"]),
        layers=tuple((np.array(layer["weights"]), np.array(layer["bias"])) for layer in content["layers"]),
        held_out={name: (held_out[name]["mean"], held_out[name]["worst"]) for name in OUTPUTS},
        worst={name: max(held_out[name]["worst"], fit[name]["worst"]) for name in OUTPUTS},
        least=tuple(content["least"]), most=tuple(content["most"]))


def relative_errors(regressor: SramRegressor, memories: np.ndarray, recorded: np.ndarray) -> np.ndarray:
    """Errors of a network on recorded figures.

    Args:
        regressor: The network.
        memories: `INPUTS`, [N, 5].
        recorded: Recorded `OUTPUTS`, [N, 4].

    Returns:
        |estimate / figure - 1|, [N, 4].
    """
    errors: np.ndarray = np.abs(regressor.estimate(memories) / recorded - 1)
    return errors
