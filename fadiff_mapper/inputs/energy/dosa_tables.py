"""DOSA's energies for the levels of an architecture that is built like a Gemmini."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import EnergyTable, Tables, compute_energy, full_name, storage_energy

# All are in pJ per word, as the public code of DOSA has them (a7a3239); there are no areas. They take numbers, arrays
# of NumPy and tensors of torch.

MAC_PJ = 0.5608
REGISTER_PJ = 0.48746172
DRAM_PJ = 100.0


def accumulator_pj(kilobytes: Any, side: Any) -> Any:
    """pJ per word of the accumulator of an array of side x side units, which has a bank for every column.

    `kilobytes` (of 1024 bytes) are those of all banks together.
    """
    return 1.94 + 0.1005 * kilobytes / side


def scratchpad_pj(kilobytes: Any) -> Any:
    """pJ per word of the scratchpad; its capacity in KB of 1024 bytes."""
    return 0.49 + 0.02513 * kilobytes


SOURCE = "DOSA's formula"
BITS_PER_KB = 8192


def dosa_tables(arch: Architecture, given: Tables) -> Tables:
    """Completes an ERT with DOSA's energies, a row for every component that it does not price completely.

    DRAM and register files are known by their class, an accumulator by "accum" in its name, and every other level with
    a capacity counts as a scratchpad. A vector access costs what its words cost, nothing leaks, and there are no areas.
    """
    rows = []
    for level in reversed(arch.levels):
        if not level.is_dummy and storage_energy(level, given).built_in:
            kilobytes = (level.size or 0) * level.word_bits / BITS_PER_KB
            if level.is_dram:
                word, role = DRAM_PJ, "DRAM"
            elif not level.size:
                word, role = 0.0, "no level: without capacity"
            elif "reg" in level.kind.lower():
                word, role = REGISTER_PJ, "a register"
            elif "accum" in level.name.lower():
                kilobytes, side = kilobytes * level.instances, math.sqrt(arch.arithmetic.instances)
                word = accumulator_pj(kilobytes, side)
                role = f"an accumulator of {kilobytes:g} KB, array of side {side:g}"
            else:
                word, role = scratchpad_pj(kilobytes), f"a scratchpad of {kilobytes:g} KB"
            energies = dict.fromkeys(("read", "write", "update"), word * level.block_size) | {"leak": 0.0}
            rows.append(EnergyTable(full_name(arch, level.name), energies, f"{SOURCE} for {role}"))
    if compute_energy(arch.arithmetic, given)[1]:
        rows.append(EnergyTable(full_name(arch, arch.arithmetic.name), {"compute": MAC_PJ}, f"{SOURCE} for a MAC"))
    return replace(given, ert=(*given.ert, *rows))
