"""Asks Accelergy for the figures that estimates of energies rest on, and writes them down as tables.

    python -m validation.record_figures [TABLE ...] --version TEXT [--out FOLDER]

TABLE is one of sram (about an hour), sram_held_out, regfile, intmac, fpmac, dram. `--version` says which Accelergy,
with which plug-ins, is on the PATH; it goes into the head of each file. Energies are in pJ, leakage in pJ per cycle
of 1 ns, all with the digits that Accelergy prints.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.energy.accelergy_tables import installed
from fadiff_mapper.energy.run_accelergy import ask
from fadiff_mapper.yaml.load import load_text
from fadiff_mapper.yaml.located import plain

Row = dict[str, Any]
"""A row of a table: column -> value."""

AT_ONCE = 10
"""Components per run of Accelergy, so that progress shows; nothing was measured."""

TIME_LIMIT_S = 3600.0
"""Seconds for one run of Accelergy: a plain limit, far above the minutes that ten memories take."""


def memory(technology: int, capacity: int, width: int, banks: int) -> Row:
    """The attributes of an SRAM.

    Args:
        technology: In nm.
        capacity: In bytes.
        width: Bits of a line.
        banks: Number of banks.
    """
    return {"technology_nm": technology, "depth": capacity * 8 // width, "width_bits": width, "n_banks": banks}


def grid() -> list[Row]:
    """The memories to which the estimate is fitted.

    64 B to 8 MB and 8 to 1024 bits at 45 nm with one bank; fewer sizes for other technologies and banks.
    """
    memories = [memory(45, 2 ** k, width, 1) for k in range(6, 24) for width in (8, 16, 32, 64, 128, 256, 512, 1024)
                if k < 22 or width >= 32]
    memories += [memory(nm, 2 ** k, width, 1) for nm in (22, 32, 65, 90) for k in range(7, 22, 2)
                 for width in (16, 64, 256) if k < 21 or width >= 64]
    memories += [memory(45, 2 ** k, width, banks) for banks in (2, 4, 8, 16) for k in range(8, 21, 2)
                 for width in (16, 64, 256)]
    memories += [memory(nm, 2 ** k, width, banks) for nm, banks in ((32, 2), (65, 4), (90, 2), (22, 8))
                 for k in (11, 15, 18) for width in (32, 128)]
    return [row for row in memories if row["depth"] >= 8 * row["n_banks"]]


def held_out(count: int = 48, seed: int = 0) -> list[Row]:
    """Random memories off the grid, on which errors of the estimate are measured.

    Capacities and widths differ from the grid's, and some technologies lie between CACTI's own.
    """
    rng = random.Random(seed)
    memories: list[Row] = []
    while len(memories) < count:
        bits = 2 ** rng.uniform(10, 24)
        width = max(8, 8 * round(2 ** rng.uniform(3, 9) / 8))
        depth = max(1, round(bits / width))
        technology, banks = rng.choice((22, 28, 32, 40, 45, 45, 45, 65, 90)), rng.choice((1, 1, 1, 2, 4))
        if depth >= 8 * banks:
            memories.append({"technology_nm": technology, "depth": depth, "width_bits": width, "n_banks": banks})
    return memories


def priced(component_class: str, actions: Sequence[str], attributes: Sequence[Row],
           program: str) -> list[dict[str, float]]:
    """Asks Accelergy for the energies of many components of one class.

    Args:
        component_class: Accelergy's primitive class.
        actions: Actions to price.
        attributes: Attributes of each component.
        program: The `accelergy` command.

    Returns:
        Action -> pJ for each entry of `attributes`.

    Raises:
        FadiffError: Accelergy fails or gives no table.
    """
    energies: list[dict[str, float]] = []
    for start in range(0, len(attributes), AT_ONCE):
        common = {"technology": "45nm", "global_cycle_seconds": 1e-9}
        local = [{"name": f"c{i}", "class": component_class, "required_actions": list(actions),
                  "attributes": common | own} for i, own in enumerate(attributes[start:start + AT_ONCE])]
        tree = {"version": "0.4", "subtree": [{"name": "system", "attributes": common, "local": local}]}
        text = json.dumps({"architecture": tree}, indent=1)
        ert = plain(load_text(ask(text, program, os.environ, TIME_LIMIT_S)["ERT.yaml"], "ERT.yaml"))["ERT"]
        energies += [{action["name"]: float(action["energy"]) for action in table["actions"]}
                     for table in ert["tables"]]
        print(f"{component_class}: {len(energies)} of {len(attributes)}", file=sys.stderr)
    return energies


def sram(memories: list[Row], program: str) -> list[Row]:
    """The rows of `memories` with energies of a read and a write, and leakage."""
    asked = [{"technology": f"{row['technology_nm']}nm", "depth": row["depth"], "width": row["width_bits"],
              "n_banks": row["n_banks"]} for row in memories]
    energies = priced("SRAM", ("read", "write", "leak"), asked, program)
    return [row | {"read_pj": e["read"], "write_pj": e["write"], "leak_pj": e["leak"]}
            for row, e in zip(memories, energies, strict=True)]


def regfile(program: str) -> list[Row]:
    """Register files by depth alone: Aladdin's figure for an access ignores the width and jumps after powers of two."""
    depths = sorted({2 ** k for k in range(13)} | {2 ** k + 1 for k in range(1, 12)})
    energies = priced("regfile", ("read", "leak"), [{"depth": depth, "width": 16} for depth in depths], program)
    return [{"depth": depth, "access_pj": e["read"], "leak_pj": e["leak"]}
            for depth, e in zip(depths, energies, strict=True)]


def intmac(program: str) -> list[Row]:
    """Integer multiply-accumulate units by the width of their operands."""
    widths = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
    energies = priced("intmac", ("compute",), [{"width": width} for width in widths], program)
    return [{"width_bits": width, "compute_pj": e["compute"]} for width, e in zip(widths, energies, strict=True)]


def fpmac(program: str) -> list[Row]:
    """Floating-point units by the bits of exponent and mantissa together: Aladdin's figures depend on the sum alone."""
    formats = ((4, 3), (5, 10), (8, 15), (8, 23), (8, 24), (11, 52))
    energies = priced("fpmac", ("compute",), [{"exponent": e, "mantissa": m} for e, m in formats], program)
    return [{"width_bits": sum(bits), "compute_pj": e["compute"]} for bits, e in zip(formats, energies, strict=True)]


def dram(program: str) -> list[Row]:
    """DRAMs by type, pJ per bit; a write costs as much as a read."""
    types = ("LPDDR4", "LPDDR", "DDR3", "GDDR5", "HBM2", "HMC")
    energies = priced("DRAM", ("read",), [{"type": name, "width": 1} for name in types], program)
    return [{"type": name, "bit_pj": e["read"]} for name, e in zip(types, energies, strict=True)]


TABLES: dict[str, Callable[[str], list[Row]]] = {
    "sram": lambda program: sram(grid(), program), "sram_held_out": lambda program: sram(held_out(), program),
    "regfile": regfile, "intmac": intmac, "fpmac": fpmac, "dram": dram}


def table_text(rows: Sequence[Row], version: str) -> str:
    """The table as CSV, under a comment that names the version of Accelergy."""
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    return "\n".join([f"# Recorded from {version}", *lines]) + "\n"


def main() -> int:
    """Records the tables that are named, all of them by default; returns the exit code."""
    parser = argparse.ArgumentParser(description="Records figures from Accelergy.")
    parser.add_argument("tables", nargs="*", metavar="TABLE")
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=Path, default=bundled_files.root() / "figures")
    options = parser.parse_args()
    program = installed()
    try:
        if program is None:
            raise FadiffError("there is no accelergy command on the PATH")
        for name in options.tables or TABLES:
            text = table_text(TABLES[name](program), options.version)
            (options.out / f"{name}.csv").write_text(text, encoding="utf-8")
    except FadiffError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
