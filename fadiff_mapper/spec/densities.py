"""How the nonzeros of a tensor are distributed."""

from __future__ import annotations

from dataclasses import dataclass

FIXED, HYPERGEOMETRIC, BANDED = "fixed_structured", "hypergeometric", "banded"


@dataclass(frozen=True)
class Density:
    """The distribution of the nonzeros of one tensor.

    Attributes:
        distribution: `FIXED`: every tile has the same share of nonzeros. `HYPERGEOMETRIC`: nonzeros are drawn without
            replacement from the whole tensor. `BANDED`: a square matrix with nonzeros along its diagonal only.
        density: Share of nonzeros in [0, 1]; without meaning where the tensor is banded.
        band_width: Diagonals on either side of the main one that hold nonzeros, where the tensor is banded.
    """

    distribution: str = FIXED
    density: float = 1.0
    band_width: int = 0

    @property
    def name(self) -> str:
        """The name of the distribution as Timeloop prints it."""
        return f"{BANDED}-{self.band_width}" if self.distribution == BANDED else self.distribution


DENSE = Density()
"""The density of a tensor for which the input gives none."""
