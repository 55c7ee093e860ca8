"""A small neural network from the size of an SRAM to its energies, fitted to figures of CACTI.

The paper models the energy per access of on-chip buffers that way, as DOSA does. Here it is evaluated with NumPy;
`validation.train_sram_network` fits it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from fadiff_mapper.base import bundled_files

INPUTS = ("capacity_bits", "width_bits", "technology_nm", "n_banks")
OUTPUTS = ("read_pj", "write_pj", "leak_pj")
"""Leakage in pJ per cycle of 1 ns."""


@dataclass(frozen=True)
class SramRegressor:
    """Logarithms in, logarithms out, both normalised; tanh between the layers.

    `shift` and `scale` are (inputs, outputs) each; `layers` are (weights [out, in], bias [out]). `mean_error` is
    relative, of reads or writes, on figures that the fit has not seen, `worst_error` that on any figure. `least` and
    `most` are the smallest and largest inputs that the fit has seen, [4].
    """

    shift: tuple[np.ndarray, np.ndarray]
    scale: tuple[np.ndarray, np.ndarray]
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    mean_error: float
    worst_error: float
    least: np.ndarray
    most: np.ndarray

    def energies(self, memories: np.ndarray) -> np.ndarray:
        """`OUTPUTS` [..., 3] of memories given as `INPUTS` [..., 4]."""
        values = (np.log2(memories) - self.shift[0]) / self.scale[0]
        for index, (weights, bias) in enumerate(self.layers):
            values = values @ weights.T + bias
            values = values if index == len(self.layers) - 1 else np.tanh(values)
        energies: np.ndarray = 2 ** (values * self.scale[1] + self.shift[1])
        return energies

    def covers(self, memory: np.ndarray) -> bool:
        """Whether a memory lies within the recorded range of every input."""
        return bool((memory >= self.least).all() and (memory <= self.most).all())


def sram_regressor() -> SramRegressor:
    """The network that comes along."""
    return from_dict(json.loads((bundled_files.root() / "figures" / "sram_network.json").read_text(encoding="utf-8")))


def from_dict(content: dict[str, Any]) -> SramRegressor:
    """The network that a file describes."""
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


def relative_errors(network: SramRegressor, memories: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """|estimate / figure - 1| [n, 3] for memories [n, 4] and their recorded energies [n, 3]."""
    errors: np.ndarray = np.abs(network.energies(memories) / energies - 1)
    return errors
