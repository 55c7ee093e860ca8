"""Asks Accelergy for the figures that estimates of energies and areas rest on, and writes them down as tables.

    python -m validation.record_figures [TABLE ...] --version TEXT [--out FOLDER]

TABLE is one of sram (about an hour), sram_held_out, regfile, intmac, fpmac, dram. `--version` says which Accelergy,
with which plug-ins, is on the PATH; it goes into the head of each file. Energies are in pJ, leakage in pJ per cycle
of 1 ns, areas in um^2, all with the six digits that Accelergy prints.
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
from fadiff_mapper.inputs.energy.accelergy_tables import ask, rounded
from fadiff_mapper.inputs.energy.choose_source import installed
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import plain

Row = dict[str, Any]
"""A row of a table: column -> value."""

AT_ONCE = 10
"""Components per run of Accelergy, so that progress shows; nothing was measured."""

TIME_LIMIT_S = 3600.0
"""Seconds for one run of Accelergy: a plain limit, far above the minutes that ten memories take."""


def memory(technology: int, capacity: int, width: int, banks: int, ports: int = 1) -> Row:
    """The attributes of an SRAM.

    Args:
        technology: In nm.
        capacity: In bytes.
        width: Bits of a line.
        banks: Number of banks.
        ports: Number of ports that read and write.
    """
    return {"technology_nm": technology, "depth": capacity * 8 // width, "width_bits": width, "n_banks": banks,
            "n_rw_ports": ports}


def grid() -> list[Row]:
    """The memories to which the estimate is fitted.

    64 B to 8 MB and 8 to 1024 bits at 45 nm with one bank and one port; fewer sizes for other technologies, banks and
    ports.
    """
    memories = [memory(45, 2 ** k, width, 1) for k in range(6, 24) for width in (8, 16, 32, 64, 128, 256, 512, 1024)
                if k < 22 or width >= 32]
    memories += [memory(nm, 2 ** k, width, 1) for nm in (22, 32, 65, 90) for k in range(7, 22, 2)
                 for width in (16, 64, 256) if k < 21 or width >= 64]
    memories += [memory(45, 2 ** k, width, banks) for banks in (2, 4, 8, 16) for k in range(8, 21, 2)
                 for width in (16, 64, 256)]
    memories += [memory(nm, 2 ** k, width, banks) for nm, banks in ((32, 2), (65, 4), (90, 2), (22, 8))
                 for k in (11, 15, 18) for width in (32, 128)]
    memories += [memory(45, 2 ** k, width, 1, ports) for ports in (2, 4) for k in (8, 11, 14, 17, 20)
                 for width in (16, 64, 256)]
    memories += [memory(nm, 2 ** k, 64, banks, 2) for nm, banks in ((22, 1), (90, 1), (45, 4)) for k in (10, 14, 18)]
    memories += [memory(nm, 2 ** k, width, banks, ports) for nm in (22, 45, 65, 90) for banks in (2, 4)
                 for ports in (2, 4) for k, width in ((9, 32), (11, 256), (13, 32), (16, 256), (18, 32))]
    return [row for row in memories if row["depth"] >= 8 * row["n_banks"]]


def held_out(count: int = 48, seed: int = 0, ports: Sequence[int] = (1,)) -> list[Row]:
    """Random memories off the grid, on which errors of the estimate are measured.

    Capacities and widths differ from the grid's, and some technologies lie between CACTI's own. The numbers of `ports`
    take turns.
    """
    rng = random.Random(seed)
    memories: list[Row] = []
    while len(memories) < count:
        bits = 2 ** rng.uniform(10, 24)
        width = max(8, 8 * round(2 ** rng.uniform(3, 9) / 8))
        depth = max(1, round(bits / width))
        technology, banks = rng.choice((22, 28, 32, 40, 45, 45, 45, 65, 90)), rng.choice((1, 1, 1, 2, 4))
        if depth >= 8 * banks:
            memories.append({"technology_nm": technology, "depth": depth, "width_bits": width, "n_banks": banks,
                             "n_rw_ports": ports[len(memories) % len(ports)]})
    return memories


def priced(component_class: str, actions: Sequence[str], attributes: Sequence[Row],
           program: str) -> list[dict[str, float]]:
    """Asks Accelergy for the energies and areas of many components of one class.

    Args:
        component_class: Accelergy's primitive class.
        actions: Actions to price.
        attributes: Attributes of each component.
        program: The `accelergy` command.

    Returns:
        Action -> pJ, and "area" -> um^2, for each entry of `attributes`.

    Raises:
        FadiffError: Accelergy fails or gives no table.
    """
    prices: list[dict[str, float]] = []
    for start in range(0, len(attributes), AT_ONCE):
        common = {"technology": "45nm", "global_cycle_seconds": 1e-9}
        local = [{"name": f"c{i}", "class": component_class, "required_actions": list(actions),
                  "attributes": common | own} for i, own in enumerate(attributes[start:start + AT_ONCE])]
        tree = {"version": "0.4", "subtree": [{"name": "system", "attributes": common, "local": local}]}
        text = json.dumps({"architecture": tree}, indent=1)
        files = ask(text, program, os.environ)
        ert, art = (plain(load_text(files[f"{kind}.yaml"], kind))[kind]["tables"] for kind in ("ERT", "ART"))
        area_of = {table["name"]: rounded(float(table["area"])) for table in art}
        prices += [{action["name"]: rounded(float(action["energy"])) for action in table["actions"]}
                   | {"area": area_of[table["name"]]} for table in ert]
        print(f"{component_class}: {len(prices)} of {len(attributes)}", file=sys.stderr)
    return prices


def sram(memories: list[Row], program: str) -> list[Row]:
    """The rows of `memories` with energies of a read and a write, leakage, and area."""
    asked = [{"technology": f"{row['technology_nm']}nm", "depth": row["depth"], "width": row["width_bits"],
              "n_banks": row["n_banks"], "n_rw_ports": row["n_rw_ports"]} for row in memories]
    prices = priced("SRAM", ("read", "write", "leak"), asked, program)
    return [row | {"read_pj": e["read"], "write_pj": e["write"], "leak_pj": e["leak"], "area_um2": e["area"]}
            for row, e in zip(memories, prices, strict=True)]


def regfile(program: str) -> list[Row]:
    """Register files by depth alone: Aladdin's figures ignore the width and jump after powers of two."""
    depths = sorted({2 ** k for k in range(13)} | {2 ** k + 1 for k in range(1, 12)})
    prices = priced("regfile", ("read", "leak"), [{"depth": depth, "width": 16} for depth in depths], program)
    return [{"depth": depth, "access_pj": e["read"], "leak_pj": e["leak"], "area_um2": e["area"]}
            for depth, e in zip(depths, prices, strict=True)]


def intmac(program: str) -> list[Row]:
    """Integer multiply-accumulate units by the width of their operands and the clock."""
    widths = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
    return arithmetic("intmac", [({"width": width}, width) for width in widths], program)


def fpmac(program: str) -> list[Row]:
    """Floating-point units by the bits of exponent and mantissa together: Aladdin's figures depend on the sum alone."""
    formats = ((4, 3), (5, 10), (8, 15), (8, 23), (8, 24), (8, 25), (11, 36), (11, 52), (11, 53))
    return arithmetic("fpmac", [({"exponent": e, "mantissa": m}, e + m) for e, m in formats], program)


def arithmetic(component_class: str, units: Sequence[tuple[Row, int]], program: str) -> list[Row]:
    """Prices units, each given as (attributes, bits), at every clock that Aladdin tells from others.

    Aladdin takes the next whole ns up to 6, another figure below 0.75 ns, and one more above 10 ns.
    """
    asked = [(own | {"global_cycle_seconds": cycle * 1e-9}, bits, cycle)
             for cycle in (0.5, 1, 2, 3, 4, 5, 6, 11) for own, bits in units]
    prices = priced(component_class, ("compute",), [own for own, _, _ in asked], program)
    return [{"cycle_ns": cycle, "width_bits": bits, "compute_pj": price["compute"], "area_um2": price["area"]}
            for (_, bits, cycle), price in zip(asked, prices, strict=True)]


def dram(program: str) -> list[Row]:
    """DRAMs by type, pJ per bit; a write costs as much as a read, and the area on the chip is 0."""
    types = ("LPDDR4", "LPDDR", "DDR3", "GDDR5", "HBM2", "HMC")
    prices = priced("DRAM", ("read",), [{"type": name, "width": 1} for name in types], program)
    return [{"type": name, "bit_pj": e["read"]} for name, e in zip(types, prices, strict=True)]


TABLES: dict[str, Callable[[str], list[Row]]] = {
    "sram": lambda program: sram(grid(), program),
    "sram_held_out": lambda program: sram(held_out() + held_out(24, 1, (2, 4)), program),
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
    parser.add_argument("--out", type=Path, default=bundled_files.ROOT / "figures")
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
