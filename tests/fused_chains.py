"""Random fused mappings of small chains in LoopTree's input grammar: plain dicts, as a user's YAML would give them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

Json = dict[str, Any]

COMPONENTS = ("DRAM", "Buffer", "Sums", "Latch", "MAC")
ENERGIES = {"DRAM": (64.0, 60.0), "Buffer": (4.0, 5.0), "Sums": (2.0, 2.5), "Latch": (0.125, 0.25)}
MAC_PJ = 1.5


@dataclass(frozen=True)
class Size:
    """One layer of a chain: output channels, output rows and columns (None: there is no such axis), kernel."""

    m: int
    c: int
    p: int
    q: int | None = None
    r: int = 1
    s: int = 1
    stride: int = 1
    dilation: int = 1


def layer(i: int, size: Size, residual: str | None = None) -> Json:
    """Layer i reads F(i) and W(i) and writes F(i + 1); `residual` names one more input, shaped as the output."""
    ranks = {f"P{i}": size.p, f"M{i}": size.m, f"C{i}": size.c}
    source, weights, output = [f"C{i}"], [f"C{i}", f"M{i}"], [f"M{i}"]
    for pixel, points, kernel, taps in (("P", size.p, "R", size.r), ("Q", size.q, "S", size.s)):
        if points is None:
            continue
        ranks[f"{pixel}{i}"] = points
        reach = f"{size.stride}*{pixel}{i}" if size.stride > 1 else f"{pixel}{i}"
        output.append(f"{pixel}{i}")
        if taps > 1:
            ranks[f"{kernel}{i}"] = taps
            weights.append(f"{kernel}{i}")
            reach += f" + {size.dilation}*{kernel}{i}" if size.dilation > 1 else f" + {kernel}{i}"
        source.append(reach)
    spaces = [(f"F{i}", source, False), (f"W{i}", weights, False)]
    spaces += [(residual, output, False)] if residual else []
    spaces.append((f"F{i + 1}", output, True))
    return {
        "shape": {"name": f"E{i}", "dimensions": list(ranks), "data_spaces": [
            {"name": name, "dimensions": [f"{name}_{k}" for k in range(len(axes))],
             "projection": "[ " + ", ".join(axes) + " ]"} | ({"read_write": True} if written else {})
            for name, axes, written in spaces]},
        "instance": " and ".join(f"0 <= {rank} < {extent}" for rank, extent in ranks.items())}


def random_sizes(rng: Random) -> list[Size]:
    """One to three layers; the last one is drawn first, the earlier ones make at least what it needs."""
    kind = rng.choice(["matmul", "conv1d", "conv2d"])
    p, q, m = rng.randint(2, 5), rng.randint(2, 4) if kind == "conv2d" else None, rng.randint(1, 3)
    sizes: list[Size] = []
    for _ in range(rng.randint(1, 3)):
        taps = 1 if kind == "matmul" else rng.randint(1, 3)
        small = Size(m, rng.randint(1, 3), p, q, r=taps, s=rng.randint(1, 2) if q else 1,
                     stride=rng.choice([1, 1, 2]) if kind != "matmul" else 1, dilation=rng.choice([1, 1, 2]))
        sizes.insert(0, small)
        unused = rng.choice([0, 0, 1])
        m, p = small.c, (p - 1) * small.stride + (small.r - 1) * small.dilation + 1 + unused
        q = (q - 1) * small.stride + (small.s - 1) * small.dilation + 1 if q else None
    return sizes


def store(level: int, *tensors: str) -> Json:
    return {"type": "storage", "target": level, "dspace": list(tensors)}


def loop(rank: str, tile: int, kind: str = "temporal") -> Json:
    return {"type": kind, "rank": rank, "tile_shape": tile}


def branch(rng: Random, problem: Json) -> list[Json]:
    """All that one layer does below the shared loops: partial sums in a level, then one word of each operand."""
    shape = problem["shape"]
    *inputs, output = [space["name"] for space in shape["data_spaces"]]
    ranks = list(shape["dimensions"])
    rng.shuffle(ranks)
    side_by_side = rng.sample(ranks, rng.choice([0, 1, 2]))
    outside = rng.randint(0, 1)
    in_turn = [loop(rank, 1) for rank in ranks if rank not in side_by_side]
    return [*in_turn[:outside], store(2, output), *in_turn[outside:],
            *(loop(rank, 1, "spatial") for rank in side_by_side), store(3, *inputs, output),
            {"type": "compute", "einsum": shape["name"], "target": 4}]


def shared_loops(rng: Random, last: Json, count: int) -> list[Json]:
    """Loops over ranks of the last layer, with tiles of any size; a rank may be cut again."""
    extents = {part.split()[2]: int(part.split()[4]) for part in last["instance"].split(" and ")}
    loops = []
    for _ in range(count):
        rank = rng.choice([name for name in extents if name[0] in "PPQM"])
        extents[rank] = rng.randint(1, extents[rank])
        loops.append(loop(rank, extents[rank]))
    return loops


def random_document(rng: Random) -> Json:
    """A chain and one mapping of it."""
    sizes = random_sizes(rng)
    residual = "F2" if len(sizes) == 3 and sizes[2].m == sizes[1].c and sizes[1:] == [
        Size(s.m, s.c, sizes[2].p, sizes[2].q) for s in sizes[1:]] else None
    layers = [layer(i, size, residual if i == 3 else None) for i, size in enumerate(sizes, 1)]
    maps = [f"F{i}" for i in range(1, len(layers) + 2)]
    weights = [f"W{i}" for i in range(1, len(layers) + 1)]
    split = rng.choice(["sequential", "pipeline"])
    branches = [branch(rng, one) for one in layers]
    if rng.random() < 0.25:
        kept = [[store(1, f"W{i}", f"F{i}")] for i in range(1, len(layers) + 1)]
        nodes = [store(0, *maps, *weights)]
        if residual:
            kept[2].append(store(1, residual))
        branches = [above + below for above, below in zip(kept, branches, strict=True)]
    else:
        loops = shared_loops(rng, layers[-1], rng.randint(0, 3))
        nodes = [store(0, maps[0], maps[-1], *weights)]
        whole = rng.random() < 0.7
        nodes += [store(1, *weights)] if whole else []
        at = {name: rng.randint(0, len(loops)) for name in maps[:-1]}
        for depth in range(len(loops) + 1):
            here = [name for name in maps[:-1] if at[name] == depth]
            nodes += ([store(1, *here)] if here else []) + loops[depth:depth + 1]
        if not whole:
            branches = [[store(1, f"W{i}"), *below] for i, below in enumerate(branches, 1)]
    return document(layers, [*nodes, {"type": split, "branches": branches}])


def document(layers: list[Json], nodes: list[Json]) -> Json:
    """A whole input around layers and the nodes of a mapping."""
    tables = [{"name": name, "actions": [{"name": "read", "energy": read}, {"name": "write", "energy": write}]}
              for name, (read, write) in ENERGIES.items()]
    tables.append({"name": "MAC", "actions": [{"name": "compute", "energy": MAC_PJ}]})
    return {"problem": layers, "mapping": {"type": "fused", "nodes": nodes},
            "architecture": {"version": 0.4, "nodes": [{"name": name, "class": "SRAM"} for name in COMPONENTS]},
            "ERT": {"version": "0.4", "tables": tables}}
