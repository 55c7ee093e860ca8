"""The published rows of FuseMax (MICRO 2024), rebuilt from the structure of its mappings with this project's model.

    python benchmarks/fusemax.py [--search] [-o FILE]

Each Einsum of a cascade is one Timeloop problem with one mapping on its own array (`CASCADE`, `FLAT_CASCADE`,
`SOFTMAX`, `flat`), evaluated as `fadiff_mapper.evaluate` does; where the artifact has `timeloop-mapper` choose
(unfused products, projections), our search chooses under the same constraints. Traffic, latency and energy are put
together by the artifact's own rules. `fusemax_results.csv` has its figures: bytes, seconds, pJ.

Rebuilt rows differ from the published ones for these reasons:

- Accesses of the global buffer. The artifact's table has 484.97 and 451.30 pJ for a read and a write of 256 words;
  the published energies imply the two pairs of `L3`, which are taken here. No other number is fitted.
  `end2end-proposal` is then within 0.04 %. With the table's pair, `attn-binding` would be 3 % and `attn-cascade` 12
  to 19 % lower.
- Exponentials of `attn-cascade`. The artifact calls their unit by two names, so published energies leave them out, as
  is done here. In `attn-flat` and `attn-unfused` they are charged.
- Registers. The artifact takes numbers per instance, and so charges registers as if the array had one PE; so is done
  here.
- First reads of sums. Timeloop leaves them out, and goes by products of 64 bits to know how many there are. From a
  product of 2^64 on these lose their high bits, mostly to 0, so that first reads count. `with_overflow` repeats this:
  without it energies are up to 0.5 % (`attn-binding`, `attn-arch`), 7 % (`attn-cascade`) and 3 % (`attn-flat`,
  `attn-unfused`) lower, from 262,144 or 1,048,576 tokens on. In `attn-flat` at 65,536 tokens it happens to the scores
  in the buffer: 2^42 of 16 heads, in tiles of 2^24. At 16,384 tokens the product is 2^62. With it, `attn-binding` and
  `attn-arch` are some 0.01 % higher from 262,144 tokens on, for a reason that is not known.
- Mappings of `timeloop-mapper`, which are not published. The ones here, under the same constraints, move 0.07 to 0.3 %
  fewer bytes in unfused attention at 262,144 tokens (4 rows), and equally many in all others.

With `--search`, `map_network` plans the attention on the bundled `inference/fusemax_like` with the buffer accesses
from above, free registers, and queries along one side of the array. It has two units: the 256 lanes, and the 2-D
array itself, which also does max, sum and exponentials (6 multiply-accumulates behind a subtraction). Each plan is
one group in one pass; BERT, TrXL and T5 differ in their number of heads alone. The rest of the difference in energy
is the registers of the proposal (0.0001). Buffer words of the proposal include the first reads of sums from above.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from provenance import add_output, heading, markdown, row

from fadiff_mapper import NetworkOptions, NetworkResult, SearchOptions, evaluate, load, map_layer, map_network
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.workload import Node, build_workload, make_operator

MODELS = {"BERT": (12, 64, 768, 3072), "TrXL": (16, 64, 1024, 4096), "T5": (8, 64, 512, 2048),
          "XLM": (16, 128, 2048, 8192)}
"""Heads, words of a head, width, inner width of the feed-forward part; batch 64."""
BATCH, SIDE = 64, 256  # sequences; PEs along each side of the 2-D array, and lanes of the 1-D array
LENGTHS = {"1K": 1 << 10, "4K": 1 << 12, "16K": 1 << 14, "64K": 1 << 16, "256K": 1 << 18, "1M": 1 << 20}
CLOCK, BYTES_PER_S, WORD = 940e6, 400 * 2 ** 30, 2  # Hz; bytes a second of DRAM; bytes
WIDTH = {"DRAM": 4, "L3": 256}  # words of an access
DRAM = (249.6, 249.6)  # pJ of a read and a write
L3 = {16: (12761.275, 15535.069), 32: (23862.997, 27097.686)}
"""pJ of a read and a write that the published rows imply, by MB: with these two numbers, rows agree to some millionths.
The artifact's own table has 484.97 and 451.30 for 16 MB."""
REGISTERS = {"fusemax": {"2d": (0.653431, 0.56957), "1d": (0.653431, 0.56957)},
             "flat": {"2d": (0.291512, 0.225259), "1d": (0.385026, 0.336188)}}
COMPUTE = {"mac": 17.1645, "add": 8.3395, "max": 0.028036, "div": 36.251153, "exp": 94.6475,
           "exponential": 0.0}  # pJ


@dataclass(frozen=True)
class Einsum:
    """One Einsum with the structure of its mapping: loops over batch, heads, tiles of keys and queries at DRAM."""

    array: str  # "2d" or "1d"
    tensors: Mapping[str, str]  # name -> ranks, the output last; M and N are tiles of keys and the keys of one
    kept: str  # tensors in the L3, by name
    held: str = ""  # tensors in the registers of the columns of the 2-D array
    cost: Mapping[str, int] = field(default_factory=lambda: {"mac": 1})  # operations of a point
    serial: str = ""  # the level that goes through the keys of a tile one after the other


SERIES = {"mac": 6, "add": 1}
"""An exponential by its series, with the subtraction before it."""

CASCADE = {
    "QK": Einsum("2d", {"Q": "BEHP", "BK": "BEHMN", "QK": "BHMNP"}, "Q BK"),
    "LM": Einsum("2d", {"QK": "BHMNP", "LM": "BHMP"}, "", "LM", {"max": 1}),
    "RM": Einsum("1d", {"LM": "BHMP", "RM0": "BHMP", "RM": "BHMP"}, "RM0 RM", cost={"max": 1}),
    "PRM": Einsum("1d", {"RM0": "BHMP", "RM": "BHMP", "PRM": "BHMP"}, "", cost=SERIES),
    "SPD": Einsum("1d", {"PRM": "BHMP", "RD0": "BHMP", "SPD": "BHMP"}, "RD0"),
    "SPNV": Einsum("1d", {"PRM": "BHMP", "RNV0": "BFHMP", "SPNV": "BFHMP"}, "RNV0"),
    "SLN": Einsum("2d", {"QK": "BHMNP", "RM": "BHMP", "SLN": "BHMNP"}, "", "RM", SERIES),
    "SLD": Einsum("2d", {"SLN": "BHMP", "SLD": "BHMP"}, "", "SLD", {"add": 1}),
    "SLNV": Einsum("2d", {"SLN": "BHMNP", "BV": "BFHMN", "SLNV": "BFHP"}, "BV", "SLNV"),
    "RD": Einsum("1d", {"SPD": "BHMP", "SLD": "BHMP", "RD": "BHMP"}, "RD", cost={"add": 1}),
    "RNV": Einsum("1d", {"SPNV": "BFHMP", "SLNV": "BFHMP", "RNV": "BFHMP"}, "RNV", cost={"add": 1}),
    "AV": Einsum("1d", {"RNV": "BFHP", "RD": "BHP", "AV": "BFHP"}, "RNV RD", cost={"div": 1}),
}
"""The one-pass cascade on FuseMax's arrays."""

EXPONENTIAL = {"exp": 1, "add": 1}
NOT_CHARGED = {"exponential": 1, "add": 1}
"""The same where the artifact's names of the unit differ, "exponential" and "exponentiatial": it costs nothing."""
FLAT_CASCADE = CASCADE | {
    "QK": Einsum("2d", CASCADE["QK"].tensors, "Q BK QK", "QK"),
    "LM": Einsum("1d", CASCADE["LM"].tensors, "", cost={"max": 1}, serial="Registers"),
    "PRM": Einsum("1d", CASCADE["PRM"].tensors, "", cost=NOT_CHARGED),
    "SLN": Einsum("1d", CASCADE["SLN"].tensors, "QK SLN", cost=NOT_CHARGED, serial="L3"),
    "SLD": Einsum("1d", CASCADE["SLD"].tensors, "", cost={"add": 1}, serial="L3"),
    "SLNV": Einsum("2d", CASCADE["SLNV"].tensors, "SLN BV", "SLNV"),
}
"""The same on FLAT's, whose 2-D array does products alone."""

SOFTMAX = {
    "M": Einsum("1d", {"QK": "BHMP", "M": "BHP"}, "QK M", cost={"max": 1}),
    "SN": Einsum("1d", {"QK": "BHMP", "M": "BHP", "SN": "BHMP"}, "QK M SN", cost=EXPONENTIAL),
    "SD": Einsum("1d", {"SN": "BHMP", "SD": "BHP"}, "SD", cost={"add": 1}),
    "A": Einsum("1d", {"SN": "BHMP", "SD": "BHP", "A": "BHMP"}, "SN SD", cost={"div": 1}),
}
"""The softmax of FLAT and of unfused attention, row by row, 256 keys side by side."""


@dataclass(frozen=True)
class FlatChoice:
    """FLAT's choices for one shape, as the artifact has them."""

    on_chip: str  # tensors in the L3
    inner: str  # "output" or "weight": what stays in the 2-D array
    rows: int = 0  # queries of a tile; 0 for whole heads
    spilled: float = 0.0  # the part of what lies in the L3 that does not fit and goes to DRAM


FLAT = {
    "1K": FlatChoice("QK A", "output"), "4K": FlatChoice("QK A", "output", 0, 0.007751937984496138),
    "16K": FlatChoice("QK A", "output", 1024, 0.007751937984496138),
    "64K": FlatChoice("QK A AV", "output", 256, 0.007751937984496138),
    "256K": FlatChoice("Q AV", "weight", 1024), "1M": FlatChoice("Q AV", "weight", 1024)}
FLAT_XLM = FLAT | {
    "1K": FlatChoice("QK A V", "output"), "4K": FlatChoice("QK A V", "output", 0, 0.06909090909090909),
    "16K": FlatChoice("Q QK A", "output", 1024, 0.026615969581749055),
    "64K": FlatChoice("Q QK A AV", "output", 256, 0.01538461538461533)}


def chip(array: str, registers: Sequence[str], size: int = 1 << 50) -> dict[str, Any]:
    """One array below DRAM and an L3 of so many words, without limits of bandwidth.

    Energies count in searches alone, and are those that the artifact's Timeloop searches with.
    """
    pes = f"[0..{SIDE * (SIDE if array == '2d' else 1) - 1}]"

    def storage(name: str, kind: str = "SRAM", **more: float) -> dict[str, Any]:
        return {"name": name, "class": kind, "attributes": {"word-bits": 16, "entries": 1 << 50, **more}}
    local = [{"name": "DRAM", "class": "DRAM", "attributes": {
        "word-bits": 16, "block-size": WIDTH["DRAM"], "vector-access-energy": 512}},
        storage("L3", entries=size, **{"block-size": WIDTH["L3"], "vector-access-energy": 2759.44}),
        *([storage("Columns")] if array == "2d" else []),
        *(storage(f"{name}{pes}", "regfile", meshX=SIDE, **{"vector-access-energy": 0.025}) for name in registers),
        {"name": f"MAC{pes}", "class": "mac", "attributes": {"word-bits": 16, "meshX": SIDE}}]
    return {"architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": local}]}}


def problem(tensors: Mapping[str, str], extents: Mapping[str, int]) -> dict[str, Any]:
    """An Einsum over tensors, name -> ranks, the output last, with the bound of every dimension."""
    spaces: list[dict[str, Any]] = [{"name": name, "projection": [[[rank]] for rank in ranks]}
                                    for name, ranks in tensors.items()]
    spaces[-1]["read_write"] = True
    return {"problem": {"shape": {"name": "einsum", "dimensions": list(extents), "data_spaces": spaces},
                        "instance": dict(extents)}}


def loops(target: str, kind: str, dims: Iterable[str], factors: Mapping[str, int], own: str,
          **more: int) -> dict[str, Any]:
    return {"target": target, "type": kind, "factors": " ".join(f"{dim}={factors.get(dim, 1)}" for dim in dims),
            "permutation": "".join((*own, *(dim for dim in dims if dim not in own))), **more}


def keeps(target: str, tensors: Iterable[str], kept: str) -> dict[str, Any]:
    return {"target": target, "type": "bypass", "keep": [name for name in tensors if name in kept.split()],
            "bypass": [name for name in tensors if name not in kept.split()]}


def timeloop(array: str, tensors: Mapping[str, str], extents: Mapping[str, int], kept: Mapping[str, str],
             temporal: Mapping[str, Mapping[str, int]], order: Mapping[str, str], sides: str) -> Stats:
    """Timeloop's numbers of an Einsum with its mapping.

    Args:
        array: "2d" or "1d".
        tensors: Name -> ranks, the output last.
        extents: Bound of every dimension.
        kept: Level -> names of the tensors that it keeps.
        temporal: Level -> factors.
        order: Level -> dimensions of its loops, innermost first; loops of one step may be left out.
        sides: Dimensions along the sides of the array, of up to 256 each.
    """
    registers = [level for level in kept if level.startswith("Registers")]
    mapping = [loops("Columns" if array == "2d" else "L3", "spatial", extents,
                     {dim: min(SIDE, extents[dim]) for dim in sides}, sides, split=1)]
    for level in ("DRAM", "L3", *(["Columns"] if array == "2d" else []), *registers):
        mapping += [loops(level, "temporal", extents, temporal.get(level, {}),
                          "".join(dim for dim in order.get(level, "") if dim in extents)),
                    keeps(level, tensors, kept.get(level, ""))]
    stats = evaluate(load({**chip(array, registers), **problem(tensors, extents), "mapping": mapping}))
    return with_overflow(stats, tensors, extents, temporal, {"Columns" if array == "2d" else "L3": sides})


def with_overflow(stats: Stats, tensors: Mapping[str, str], extents: Mapping[str, int],
                  temporal: Mapping[str, Mapping[str, int]], sides: Mapping[str, str]) -> Stats:
    """The numbers of an Einsum with the first reads of its output that Timeloop leaves in, as its products overflow.

    Timeloop knows how many first reads there are from the words for which an instance is responsible, its partition:
    from the outermost level inwards this times the words of the tile, over those of the tiles of all instances. Both
    are whole numbers of 64 bits (`ComputePartitionSizes` in its `tiling.cpp`), so that a product of 2^64 and more loses
    its high bits. All sequences of the batch are one problem there.
    """
    output, levels, tile = list(tensors)[-1], list(stats.levels), dict(extents)

    def words() -> int:
        return prod(tile[dim] for dim in tensors[output])
    part = BATCH * words()
    for index in reversed(range(len(levels) - 1)):
        outer = levels[index + 1]["name"]
        tile = {dim: extent // temporal.get(outer, {}).get(dim, 1) for dim, extent in tile.items()}
        across = words()
        tile = {dim: extent // min(SIDE, extent) if dim in sides.get(outer, "") else extent
                for dim, extent in tile.items()}
        part = part * words() % 2 ** 64 // across
        if own := levels[index]["dataspaces"].get(output):
            again = own["partition_size"] - part / BATCH
            levels[index] = {**levels[index], "dataspaces": {
                **levels[index]["dataspaces"], output: {**own, "reads": own["reads"] + again}}}
    return replace(stats, levels=levels)


def searched(tensors: Mapping[str, str], extents: Mapping[str, int], sides: str, size: int, *,
             loops_at: Mapping[str, Mapping[str, str]], kept: str | None = None) -> Stats:
    """The numbers of the best mapping that our search finds on the 2-D array, with these dimensions along its sides.

    `size`: words of the L3; `loops_at`: the fixed part of each level's loops; `kept`: tensors that the L3 keeps, any if
    None.
    """
    every, ones = " ".join(tensors), " ".join(f"{dim}=1" for dim in extents)
    targets = [loops("Columns", "spatial", extents, dict.fromkeys(sides, SIDE), sides, split=1),
               keeps("DRAM", tensors, every), *([keeps("L3", tensors, kept)] if kept is not None else []),
               keeps("Columns", tensors, ""), keeps("Registers", tensors, every),
               *({"target": level, "type": "temporal", "factors": ones} for level in ("Columns", "Registers")),
               *({"target": level, "type": "temporal", **fixed} for level, fixed in loops_at.items())]
    spec = load({**chip("2d", ["Registers"], size), **problem(tensors, extents),
                 "mapspace_constraints": {"targets": targets}})
    return map_layer(spec, SearchOptions(threads=1), metric="edp").stats


@dataclass(frozen=True)
class Figures:
    """What the artifact counts of one Einsum or of several."""

    read: float = 0  # bytes from DRAM
    written: float = 0  # bytes to DRAM
    seconds: float = 0  # of its array
    accesses: Mapping[tuple[str, bool], float] = field(default_factory=Counter)  # (memory, written) -> accesses
    operations: Mapping[str, float] = field(default_factory=Counter)

    @property
    def memory(self) -> float:
        """Seconds of DRAM."""
        return (self.read + self.written) / BYTES_PER_S

    def plus(self, other: Figures) -> Figures:
        return Figures(self.read + other.read, self.written + other.written, self.seconds + other.seconds,
                       Counter(self.accesses) + Counter(other.accesses),
                       Counter(self.operations) + Counter(other.operations))

    def energy(self, registers: str, l3: int) -> float:
        """pJ, with the registers of a design and an L3 of so many MB.

        Registers are those of one PE, as the artifact hands Accelergy the words of one.
        """
        prices = {"DRAM": DRAM, "L3": L3[l3],
                  **{f"registers {array}": price for array, price in REGISTERS[registers].items()}}
        return (sum(prices[name][written] * number for (name, written), number in self.accesses.items())
                + sum(COMPUTE[kind] * number for kind, number in self.operations.items()))


def figures(stats: Stats, array: str, cost: Mapping[str, int], dram: Sequence[str], spilling: Sequence[str] = (),
            spilled: float = 0.0, columns: bool = True, times: int = BATCH) -> Figures:
    """The artifact's figures of an Einsum.

    Args:
        stats: Timeloop's numbers of one of so many `times`, such as the sequences of a batch, one after the other.
        array: Where it runs.
        cost: Operations of a point.
        dram: Tensors whose words from and to DRAM count.
        spilling: Tensors in the L3 of which a part is in DRAM instead.
        spilled: That part.
        columns: Whether registers of the columns cost energy.
    """
    levels = {level["name"]: {name: {count: times * words[count] for count in ("reads", "fills", "updates")}
                              for name, words in level["dataspaces"].items()} for level in stats.levels}
    read = written = 0.0
    for name in {*dram, *spilling}:
        for level, part in (("DRAM", (1 - spilled * (name in spilling)) * (name in dram)),
                            ("L3", spilled * (name in spilling))):
            if name in levels[level]:
                words = levels[level][name]
                # equal numbers mean first reads of sums, which the artifact leaves out
                read += part * WORD * words["reads"] * (words["reads"] != words["updates"])
                written += part * WORD * words["updates"]
    accesses: Counter[tuple[str, bool]] = Counter()
    for level, own in levels.items():
        memory = {"Registers": f"registers {array}", "Columns": "registers 1d"}.get(level.rstrip("012"), level)
        for words in own.values() if columns or level != "Columns" else ():
            counted = words["reads"] * (level != "DRAM" or words["reads"] != words["updates"])
            accesses[memory, False] += counted / WIDTH.get(level, 1)
            accesses[memory, True] += (words["updates"] + words["fills"]) / WIDTH.get(level, 1)
    computes = times * stats.arithmetic["computes"]
    return Figures(read, written, times * stats.cycles / CLOCK * sum(cost.values()), accesses,
                   Counter({kind: computes * number for kind, number in cost.items()}))


def sums(parts: Iterable[Figures]) -> Figures:
    total = Figures()
    for part in parts:
        total = total.plus(part)
    return total


def cascade(model: str, length: int, einsums: Mapping[str, Einsum], design: str) -> dict[str, Figures]:
    """The Einsums of the one-pass cascade, queries in the largest tiles that fit the 16 MB of the L3."""
    heads, size, *_ = MODELS[model]
    per_query = 2 * size + 3 if design == "fusemax" else 2 * size + 2 * SIDE + 2  # Q, results, statistics, scores
    most = (2 ** 24 - 4 * SIDE * size) // (per_query * WORD * SIDE)
    tiles = max(number for number in divisors(length // SIDE) if number <= most)
    every = {"B": 1, "H": heads, "M": length // SIDE, "N": SIDE, "P": length, "E": size, "F": size}
    found = {}
    for name, own in einsums.items():
        ranks = set("".join(own.tensors.values()))
        extents = {dim: extent for dim, extent in every.items()
                   if dim in ranks or (dim in "MN" and name == "SLD")}
        sides = "P" if own.array == "1d" else "PN"
        temporal: dict[str, dict[str, int]] = {
            "DRAM": {dim: extents[dim] for dim in "BHM" if dim in extents} | {"P": length // (tiles * SIDE)},
            "L3": {dim: extents[dim] for dim in "EF" if dim in extents} | {"P": tiles}}
        if own.serial:
            temporal.setdefault(own.serial, {})["N"] = SIDE
        outer = "MPHB"
        dram = {"QK": "Q BK", "SLNV": "BV", "AV": "AV"}.get(name, "")
        stats = timeloop(own.array, own.tensors, extents,
                         {"DRAM": dram, "L3": own.kept, "Columns": own.held, "Registers": " ".join(own.tensors)},
                         temporal, {"DRAM": outer, "L3": ("N" if own.serial == "L3" else "EF") + "P", "Registers": "N"},
                         sides)
        found[name] = figures(stats, own.array, own.cost, dram.split(), columns=design == "fusemax")
    return found


def divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if not number % size] if number < 5000 else [
        size for size in (1 << k for k in range(number.bit_length())) if not number % size]


def attention(case: str, model: str, length: str) -> tuple[float, float, float]:
    """Bytes, seconds and pJ of a variant that runs in one pass."""
    design = "flat" if case == "attn-cascade" else "fusemax"
    einsums = FLAT_CASCADE if design == "flat" else CASCADE
    parts = cascade(model, LENGTHS[length], einsums, design)
    total, time = sums(parts.values()), {name: part.seconds for name, part in parts.items()}
    if case == "attn-cascade":
        seconds = max(sum(time[name] for name, own in einsums.items() if own.array == array) for array in ("2d", "1d"))
    elif case == "attn-arch":  # maxima of a tile wait for all of its rows
        seconds = (max(time["QK"] + time["LM"], time["RD"] + time["AV"]) + SIDE * time["LM"] + time["RM"]
                   + max(time["SLN"] + time["SLD"], time["PRM"] + time["SPD"])
                   + max(time["SLNV"], time["SPNV"] + time["RNV"]))
    else:
        seconds = (max(time["QK"] + time["LM"], time["RD"] + time["RNV"] + time["AV"]) + time["RM"]
                   + max(time["SLN"] + time["SLD"], time["PRM"] + time["SPD"]) + max(time["SLNV"], time["SPNV"]))
    return total.read + total.written, max(seconds, total.memory), total.energy(design, 32 if design == "flat" else 16)


def softmax(model: str, length: int, on_chip: bool, spilled: float) -> Figures:
    """The softmax row by row, `on_chip` between two products or from and to DRAM; operations of a point are pipelined.

    `spilled`: the part of what lies in the L3 that does not fit.
    """
    extents = {"B": 1, "H": MODELS[model][0], "M": length, "P": length}
    parts = []
    for name, own in SOFTMAX.items():
        dram = "" if on_chip else {"M": "QK", "A": "A"}.get(name, "")
        inside = own.kept + (" A" if on_chip and name == "A" else "")
        stats = timeloop("1d", own.tensors, extents, {"DRAM": dram, "L3": inside, "Registers": " ".join(own.tensors)},
                         {"DRAM": {dim: extents[dim] for dim in "BHP"}, "L3": {"M": length // SIDE}},
                         {"DRAM": "PHB"}, "M")
        spilling = [tensor for tensor in own.tensors if tensor in ("QK", "SN") and name != "SD"]
        part = figures(stats, "1d", own.cost, dram.split(), [*spilling, *(["A"] if on_chip and name == "A" else [])],
                       spilled)
        parts.append(replace(part, seconds=BATCH * stats.cycles / CLOCK))
    return by_bytes(sums(parts))


def by_bytes(part: Figures) -> Figures:
    """The figures with DRAM's energy by the bytes, parts that are spilled included, of 8 to an access."""
    accesses = Counter(part.accesses)
    accesses["DRAM", False], accesses["DRAM", True] = part.read / 8, part.written / 8
    return replace(part, accesses=accesses)


def flat(model: str, length: str) -> tuple[float, float, float]:
    """Bytes, seconds and pJ of FLAT."""
    choice, (heads, size, *_), points = (FLAT_XLM if model == "XLM" else FLAT)[length], MODELS[model], LENGTHS[length]
    rows, here = choice.rows or points, choice.on_chip.split()
    every = {"B": 1, "H": heads, "M": points, "P": points, "E": size, "F": size}
    parts, held = [], 0.0
    for tensors, order in (({"Q": "BEHP", "K": "BEHM", "QK": "BHMP"}, {"output": "EMP", "weight": "PEM"}),
                           ({"A": "BHMP", "V": "BFHM", "AV": "BFHP"}, {"output": "MFP", "weight": "PFM"})):
        inner = order[choice.inner]
        extents = {dim: every[dim] for dim in "BHMP" + ("E" if "E" in inner else "F")}
        bounds = extents | {"P": rows}
        dram = [name for name in tensors if name not in ("QK", "A") or name not in here]
        kept = {"DRAM": " ".join(dram), "L3": " ".join(here)}
        kept |= {f"Registers{index}": name for index, name in enumerate(tensors)}
        stats = timeloop("2d", tensors, extents, kept, {
            "DRAM": {"H": heads, "P": points // rows},
            "L3": {dim: bounds[dim] if dim == inner[0] else max(bounds[dim] // SIDE, 1) for dim in inner}},
            {"DRAM": "PHB", "L3": inner}, inner[1:])
        held += sum(words["utilized_capacity"] for words in stats.levels[-2]["dataspaces"].values())
        parts.append(figures(stats, "2d", {"mac": 1}, dram, [name for name in tensors if name in here], choice.spilled,
                             columns=False))
    on_chip = "QK" in here
    spilled = choice.spilled if on_chip else 1 - min(1.0, (2 ** 25 - held * WORD) / (points * WORD))
    products, rest = by_bytes(sums(parts)), softmax(model, points, on_chip, spilled)
    total = products.plus(rest)
    return total.read + total.written, max(total.memory, products.seconds, rest.seconds), total.energy("flat", 32)


QK, AV = {"Q": "EHP", "K": "EHM", "QK": "HMP"}, {"A": "HMP", "V": "FHM", "AV": "FHP"}
MATMUL = {"A": "KM", "B": "KN", "Z": "MN"}


def unfused(model: str, length: str) -> tuple[float, float, float]:
    """Bytes, seconds and pJ of attention one Einsum after the other, products as our search maps them."""
    (_, size, *_), points, heads = MODELS[model], LENGTHS[length], MODELS[model][0]
    parts = []
    for tensors, dim in ((QK, "E"), (AV, "F")):
        stats = searched({name: ranks.replace("H", "") for name, ranks in tensors.items()},
                         {dim: size, "M": points, "P": points}, "PM", 2 ** 24,
                         loops_at={"DRAM": {"permutation": f"{dim}MP"}})
        part = figures(stats, "2d", {"mac": 1}, tuple(tensors), columns=False)
        parts.append(sums([part] * heads))
    rest = softmax(model, points, False, 1 - min(1.0, 2 ** 25 / (points * WORD)))
    seconds = sum(max(part.memory, part.seconds) for part in (*parts, rest))
    total = sums([*parts, rest])
    return total.read + total.written, seconds, total.energy("flat", 32)


def projections(case: str, model: str, length: str) -> tuple[float, float, float]:
    """Bytes, seconds and pJ of the products around the attention, as our search maps them."""
    heads, size, width, inner = MODELS[model]
    rows, design = BATCH * LENGTHS[length], case.removeprefix("end2end-")
    parts = []
    for summed, columns, number in ((width, heads * size, 3), (heads * size, width, 1), (width, inner, 1),
                                   (inner, width, 1)):
        stats = searched(MATMUL, {"K": summed, "M": rows, "N": columns}, "MN",
                         2 ** (23 if design == "proposal" else 24), kept="A B",
                         loops_at={"DRAM": {"factors": "K=1", "permutation": "KNM"}, "L3": {"permutation": "KNM"}})
        parts += [figures(stats, "2d", {"mac": 1}, tuple(MATMUL), times=1)] * number
    total, seconds = sums(parts), sum(max(part.memory, part.seconds) for part in parts)
    return total.read + total.written, seconds, total.energy("fusemax", 16 if design == "proposal" else 32)


def machine() -> Spec:
    """The bundled FuseMax-like design at equal charges: L3 accesses as the rows imply, free registers, and a 2-D array,
    queries along one side, that also does max, add and exponentials, of 6 multiply-accumulates behind the subtraction,
    on what its registers hold.
    """
    text = find("inference/fusemax_like").read_text(encoding="utf-8")
    for old, new in (("484.97271", str(L3[16][0])), ("451.30271", str(L3[16][1])), ("0.653431", "0"), ("0.56957", "0"),
                     ("    spatial: {meshX: 256}", "    spatial: {meshX: 256}\n    constraints:\n      "
                      "spatial: {factors: [C=1, M=1, P=1, Q=1, R=1, S=1]}"),
                     ("    spatial: {meshY: 256}", "    spatial: {meshY: 256}\n    constraints:\n      "
                      "spatial: {factors: [N=1, P=1, Q=1, R=1, S=1]}")):
        assert old in text
        text = text.replace(old, new)
    with TemporaryDirectory() as folder:
        (file := Path(folder) / "fusemax.yaml").write_text(text, encoding="utf-8")
        spec = load(file, "bundled:layers/llama3_8b_decode/fc_4096_1024")
    (vector,) = spec.arch.units
    array = replace(vector, name=spec.arch.arithmetic.name, lanes=SIDE * SIDE, level=0, operations={
        name: vector.operations[name] for name in ("max", "add", "exp")})
    return replace(spec, arch=replace(spec.arch, units=(vector, array)))


def planned(model: str, length: str, spec: Spec) -> NetworkResult:
    """Our own plan of the attention."""
    heads, size, *_ = MODELS[model]
    points, runs = LENGTHS[length], BATCH * heads

    def gemm(name: str, inputs: tuple[str, str], summed: int, columns: int) -> Node:
        bounds = {"N": points, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1}
        return Node(name, "gemm", inputs, layer=make_operator("gemm", bounds, repeat=runs),
                    operands=("Inputs", "Weights"))
    nodes = [Node("q", "input", shape=(runs, points, size)), Node("k", "input", shape=(runs, size, points)),
             Node("v", "input", shape=(runs, points, size)), gemm("qk", ("q", "k"), size, points),
             Node("softmax", "softmax", ("qk",), (runs, points, points), axes=(-1,)),
             gemm("av", ("softmax", "v"), points, size)]
    return map_network(build_workload("attention", nodes), spec, NetworkOptions(threads=1))


CHARGES = ("scores", "buffer", "DRAM", "operations")
"""What energy is charged for: words of scores in the buffer, its other words, words of DRAM, and operations."""


def proposal_charges(model: str, length: str) -> dict[str, float]:
    """pJ of the proposal by charge, from its own mappings; without those of its registers, where its scores are."""
    total = sums(cascade(model, LENGTHS[length], CASCADE, "fusemax").values())

    def memory(name: str, prices: tuple[float, float]) -> float:
        return sum(prices[written] * total.accesses[name, written] for written in (False, True))
    operations = sum(COMPUTE[kind] * number for kind, number in total.operations.items())
    return {"scores": 0.0, "buffer": memory("L3", L3[16]), "DRAM": memory("DRAM", DRAM), "operations": operations}


def own_charges(plan: NetworkResult, points: int) -> dict[str, float]:
    """pJ of our plan, one group, of an attention over so many points by charge."""
    (own,) = plan.groups
    first, second = own.cost.layers
    words = {"GlobalBuffer": sum(L3[16]) / WIDTH["L3"], "DRAM": sum(DRAM) / WIDTH["DRAM"]}  # of each a read and a write
    charges = {name: first.components[component] + second.components[component] for name, component in (
        ("buffer", "GlobalBuffer"), ("DRAM", "DRAM"), ("operations", "MAC"))} | {"scores": 0.0}
    charges["operations"] += sum(each.energy_pj for each in own.cost.operators)
    tiles = -(-points // next(loop.tile for loop in own.group.loops if loop.dim == "C"))
    # two words of each row, read and written in all tiles but one
    statistics = words[own.group.statistics_at] * 2 * points * (tiles - 1)
    charges["operations"] -= statistics
    charges["DRAM" if own.group.statistics_at == "DRAM" else "buffer"] += statistics
    if own.group.links[0].stay.level == "GlobalBuffer":
        made, used = first.traffic["GlobalBuffer", "Outputs"], second.traffic["GlobalBuffer", "Inputs"]
        read, written = (price / WIDTH["L3"] for price in L3[16])
        products = read * (made.reads + used.reads) + written * (made.updates + used.fills)
        softmax = words["GlobalBuffer"] * points * points   # reads and writes each score once
        charges["scores"] = products + softmax
        charges["buffer"] -= products
        charges["operations"] -= softmax
    return {charge: own.group.repeat * energy for charge, energy in charges.items()}


def own_plans(results: Mapping[tuple[str, str, str], tuple[float, ...]], write: Callable[[str], None]) -> None:
    """Our plans beside the rows of `attn-binding`, and the difference of their energies, charge by charge."""
    spec = machine()
    write(heading("model", "tokens", "seconds", "energy", *CHARGES, "rest", "scores in", "shared loops", "sums",
                  "s to plan"))
    for model, length in product(MODELS, LENGTHS):
        plan, (_, seconds, energy) = planned(model, length, spec), results["attn-binding", model, length]
        ours, theirs = own_charges(plan, LENGTHS[length]), proposal_charges(model, length)
        total, more = plan.stats.energy_pj / energy, [(ours[charge] - theirs[charge]) / energy for charge in CHARGES]
        (group,) = (own.group for own in plan.groups)
        write(row(model, length, f"{plan.stats.cycles / CLOCK / seconds:.4f}", f"{total:.4f}",
                  *(f"{part:+.4f}" for part in (*more, total - 1 - sum(more))), group.links[0].stay.level,
                  " ".join(f"{loop.dim} in {loop.tile:,}" for loop in group.loops),
                  f"rest in {group.sums}" if group.sums else "stay", f"{plan.time_s:.1f}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_output(parser)
    parser.add_argument("--search", action="store_true", help="our own plans on the same machine beside attn-binding")
    options = parser.parse_args()
    variants = {"attn-unfused": unfused, "attn-flat": flat} | {
        case: partial(attention, case) for case in ("attn-cascade", "attn-arch", "attn-binding")} | {
        case: partial(projections, case) for case in ("end2end-flat", "end2end-proposal")}
    results = {(own["case"], own["model"], own["seq_len"]): tuple(
        float(own[key]) for key in ("traffic_bytes", "latency_s", "energy_pj"))
        for own in csv.DictReader((Path(__file__).parent / "fusemax_results.csv").open())}
    with markdown(options.output) as write:
        if options.search:
            own_plans(results, write)
            return
        write(heading("rows", "model", "tokens", "bytes", "seconds", "energy"))
        for case, variant in variants.items():
            for model, length in product(MODELS, LENGTHS):
                own = variant(model, length)
                write(row(case, model, length, *(f"{100 * (mine / theirs - 1):+.3f} %" for mine, theirs in zip(
                    own, results[case, model, length], strict=True))))


if __name__ == "__main__":
    main()
