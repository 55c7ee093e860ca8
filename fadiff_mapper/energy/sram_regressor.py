"""A small neural network from the size of an SRAM to its energies, fitted to figures of CACTI.

FADiff (arXiv 2511.22348, section 2.1) models the energy per access of on-chip buffers as a small multi-layer
perceptron of their capacity; here width, technology and banks are inputs as well. The network is evaluated with
NumPy; `validation/train_sram_network.py` fits it and records its errors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from fadiff_mapper.base import bundled_files

INPUTS = ("capacity_bits", "width_bits", "technology_nm", "n_banks")
"""Axis of the inputs, in order."""
OUTPUTS = ("read_pj", "write_pj", "leak_pj")
"""Axis of the outputs, in order; leakage in pJ per cycle of 1 ns."""


@dataclass(frozen=True)
class SramRegressor:
    """A fully connected network of binary logarithms, normalised on both sides, with tanh between the layers.

    Attributes:
        shift: Means that are taken off the logarithms, (inputs [4], outputs [3]).
        scale: Deviations by which they are divided, (inputs [4], outputs [3]).
        layers: (weights [out, in], bias [out]) of each layer.
        mean_error: Mean relative error on figures that the fit has not seen, of reads or writes, whichever is larger.
        worst_error: Largest relative error of a read or write on any figure.
        least: The smallest inputs that the fit has seen, [4].
        most: The largest inputs that the fit has seen, [4].
    """

    shift: tuple[np.ndarray, np.ndarray]
    scale: tuple[np.ndarray, np.ndarray]
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    mean_error: float
    worst_error: float
    least: np.ndarray
    most: np.ndarray

    def energies(self, memories: np.ndarray) -> np.ndarray:
        """Estimates energies.

        Args:
            memories: `INPUTS` of the memories, [..., 4].

        Returns:
            `OUTPUTS`, [..., 3], in pJ.
        """
        values = (np.log2(memories) - self.shift[0]) / self.scale[0]
        for index, (weights, bias) in enumerate(self.layers):
            values = values @ weights.T + bias
            values = values if index == len(self.layers) - 1 else np.tanh(values)
        energies: np.ndarray = 2 ** (values * self.scale[1] + self.shift[1])
        return energies

    def covers(self, memory: np.ndarray) -> bool:
        """Whether a memory [4] lies within the recorded range of every input."""
        return bool((memory >= self.least).all() and (memory <= self.most).all())


def sram_regressor() -> SramRegressor:
    """The bundled network."""
    return from_dict(json.loads((bundled_files.root() / "figures" / "sram_network.json").read_text(encoding="utf-8")))


def from_dict(content: dict[str, Any]) -> SramRegressor:
    """The network that the content of a file such as `figures/sram_network.json` describes."""
    def pair(key: str) -> tuple[np.ndarray, np.ndarray]:
        return np.array(content[key]["inputs"]), np.array(content[key]["outputs"])

    held_out, fit = ([content[key][action] for action in ("read_pj", "write_pj")]
                     for key in ("held_out_error", "fit_error"))
    return SramRegressor(
        shift=pair("shift"), scale=pair("scale"),
        layers=tuple((np.array(layer["weights"]), np.array(layer["bias"])) for layer in content["layers"]),
        mean_error=max(error["mean"] for error in held_out),
        worst_error=max(error["worst"] for error in (*held_out, *fit)),
        least=np.array(content["least"]), most=np.array(content["most"]))


def relative_errors(regressor: SramRegressor, memories: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """Errors of a network on recorded figures.

    Args:
        regressor: The network.
        memories: `INPUTS`, [N, 4].
        energies: Recorded `OUTPUTS`, [N, 3].

    Returns:
        |estimate / figure - 1|, [N, 3].
    """
    errors: np.ndarray = np.abs(regressor.energies(memories) / energies - 1)
    return errors
