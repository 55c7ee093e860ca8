"""DOSA's energies of a Gemmini, so that results can be laid beside DOSA's (Hong et al., MICRO 2023, 40 nm).

All are in pJ per word, as the public code of DOSA has them (a7a3239); there are no areas. They take numbers, arrays of
NumPy and tensors of torch.
"""

from __future__ import annotations

from typing import Any

MAC_PJ = 0.5608
REGISTER_PJ = 0.48746172
DRAM_PJ = 100.0


def accumulator_pj(kilobytes: Any, side: Any) -> Any:
    """pJ per word of the accumulator of an array of side x side units, which has a bank for every column.

    Args:
        kilobytes: Capacity of all banks together, in KB of 1024 bytes.
        side: Side of the array.
    """
    return 1.94 + 0.1005 * kilobytes / side


def scratchpad_pj(kilobytes: Any) -> Any:
    """pJ per word of the scratchpad; its capacity in KB of 1024 bytes."""
    return 0.49 + 0.02513 * kilobytes
