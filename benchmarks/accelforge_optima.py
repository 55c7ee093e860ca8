"""The optima that AccelForge's regression test records, beside our plans of the same products on the same machines.

    python benchmarks/accelforge_optima.py [--products | --traffic] [-o FILE]

`accelforge_optima.json` has the recorded figures and the energies of a bit behind them; `accelforge_designs.yaml.jinja`
states the machines for Timeloop. Both sides minimise the energy-delay product, with every layer by itself and with
fusion; figures of the recorded optima are those of their matrix products alone, without copies and softmax. Products of
attention by themselves run head by head or, where that is better, as one problem over all heads. With `--products`, the
block of GPT-3 175B on the TPU product by product, fused and unfused. With `--traffic`, the bits of DRAM behind a
buffer without bounds, the least of any mapping.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import yaml
from provenance import add_output, heading, markdown, row

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, load_network, map_network
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.workload import Node, OperatingPoint, Operator, build_workload, make_operator

FOLDER = Path(__file__).parent

CLOCK = {"tpu_v4i": 1.05e9, "simba": 2.5e9, "eyeriss": 200e6, "simple": 1.0}
"""Hz: multiply-accumulates of a unit in a second. The simple machine has units of its own: 1 pJ a bit, 1 s a cycle."""

INSTANCES = {"tpu_v4i": {"LocalBuffer": 4, "Register": 65536},
             "simba": {"InputBuffer": 16, "WeightBuffer": 16, "AccumulationBuffer": 16, "Register": 1024},
             "eyeriss": {"InputScratchpad": 168, "WeightScratchpad": 168, "OutputScratchpad": 168}}

CHAINS = {"matmuls": (2, 64), "three_matmuls_annotated": (3, 128)}
"""Products of a chain of square matrices, and their side; values of 8 bits."""

BLOCKS = {"gpt3_6.7B": (4096, 32), "gpt3_175B": (12288, 96)}
"""Width and heads of a block of 16-bit values that reads 2,048 tokens, or one token after 2,047 (`_decode`)."""

Graph = list[dict[str, Any]]


def network(name: str) -> dict[str, Any]:
    """The network file of a workload."""
    shapes: dict[str, dict[str, Any]] = {}

    def product(rows: int, summed: int, columns: int, runs: int = 1) -> str:
        shape = f"gemm_{rows}_{summed}_{columns}_x{runs}"
        bounds = {"N": rows, "M": columns, "C": summed, "P": 1, "Q": 1, "R": 1, "S": 1}
        shapes.setdefault(shape, {"id": shape, "op": "gemm", "count": 0, "repeat": runs, "dims": bounds})["count"] += 1
        return shape

    graph: Graph
    if name in CHAINS:
        number, side = CHAINS[name]
        names = ["input", *(f"product{index}" for index in range(number))]
        graph = [{"name": own, "shape": product(side, side, side), "from": [before]}
                 for before, own in pairwise(names)]
        extents = [side, side]
    else:
        decoding = name.endswith("_decode")
        wide, heads = BLOCKS[name.removesuffix("_decode")]
        tokens, context = (1, 2047) if decoding else (2048, 2048)
        deep, extents = wide // heads, [tokens, wide]
        keys, values = ({}, {}) if decoding else ({"weights_from": "K"}, {"weights_from": "V"})
        graph = [{"name": own, "shape": product(tokens, wide, wide), "from": ["input"]} for own in "QKV"]
        graph += [{"name": "QK", "shape": product(tokens, deep, context, heads), "from": ["Q"], **keys},
                  {"name": "softmax", "op": "softmax", "from": ["QK"]},
                  {"name": "AV", "shape": product(tokens, context, deep, heads), "from": ["softmax"], **values},
                  {"name": "Z", "shape": product(tokens, wide, wide), "from": ["AV"]},
                  {"name": "FFA", "shape": product(tokens, wide, 4 * wide), "from": ["Z"]},
                  {"name": "FFB", "shape": product(tokens, 4 * wide, wide), "from": ["FFA"]}]
    return {"workload": {"version": 1, "name": name.replace(".", "_"), "inputs": {"input": extents},
                         "shapes": list(shapes.values()), "graph": graph}}


def over_heads(name: str, layer: Operator) -> Workload:
    """A product of all heads as one problem, with the heads as its dimension G."""
    whole = make_operator("grouped_conv", {**layer.problem.bounds, "G": layer.repeat})
    return build_workload(name, [Node("input", "input", shape=whole.tensor_shape("Inputs")), Node(
        name, "grouped_conv", ("input",), layer=whole, operands=("Inputs",))])


def design(name: str, energies: dict[str, Any], bits: int, dims: str = "NMCPQRS") -> str:
    """A machine in Timeloop's v0.4 format, for values of so many bits and problems of these dimensions."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((FOLDER / "accelforge_designs.yaml.jinja").read_text("utf-8"))
    return template.render(design=name, energies=energies, bits=bits, clock=CLOCK[name], dims=dims,
                           instances=dict.fromkeys(energies, 1) | INSTANCES.get(name, {}))


def planned(machine: str, workload: str, energies: dict[str, Any], folder: Path) -> NetworkResult:
    """Our plan of a workload on a machine."""
    files = {"network.yaml": yaml.safe_dump(network(workload), sort_keys=False),
             "design.yaml": design(machine, energies, 8 if workload in CHAINS else 16)}
    for file, text in files.items():
        (folder / file).write_text(text, "utf-8")
    return map_network(load_network(folder / "network.yaml"), folder / "design.yaml")


def traffic(known: dict[str, Any], folder: Path, write: Callable[[str], None]) -> None:
    """One line for each workload: bits of DRAM of all products, each mapped by itself."""
    (folder / "design.yaml").write_text(design("simple", known["designs"]["snowcat"], 1), "utf-8")
    write(heading("workload", "products", "AccelForge, bits", "ours, bits"))
    for workload, told in known["traffic"].items():
        inputs, shapes = {}, []
        for name, product in told["products"].items():
            bounds = dict.fromkeys("NMCPQRS", 1) | {dim: bound for dim, bound in product.items() if len(dim) == 1}
            repeat, depthwise = product.get("repeat", 1), "G" in bounds
            inputs[f"{name}_input"] = [1, bounds["G"], bounds["P"] + bounds["R"] - 1, bounds["Q"] + bounds["S"] - 1] \
                if depthwise else [repeat * bounds["N"], bounds["C"]]
            shapes.append({"id": name, "op": "depthwise" if depthwise else "gemm", "count": 1, "repeat": repeat,
                           "dims": bounds})
        graph = [{"name": name, "shape": name, "from": [f"{name}_input"]} for name in told["products"]]
        (folder / "network.yaml").write_text(yaml.safe_dump({"workload": {
            "version": 1, "name": "products", "inputs": inputs, "shapes": shapes, "graph": graph}}), "utf-8")
        plan, moved = map_network(load_network(folder / "network.yaml"), folder / "design.yaml"), 0
        for entry, layer in zip(plan.workload.distinct(), plan.layers, strict=True):
            spaces = layer.stats.levels[-1]["dataspaces"]
            for node in entry.nodes:
                bits = dict.fromkeys(spaces, told["bits"]) | told["products"][node].get("bits", {})
                moved += entry.layer.repeat * sum(
                    bits[space] * (own["reads"] + own["fills"] + own["updates"]) for space, own in spaces.items())
        write(row(workload, len(shapes), f"{told['dram_bits']:,}", f"{moved:,.0f}"))


def products(known: dict[str, Any], folder: Path, write: Callable[[str], None]) -> None:
    """One line for each product of the fused block: energies, and words of DRAM but those of weights."""
    plan = planned("tpu_v4i", "gpt3_175B", known["designs"]["tpu_v4i"], folder)
    tensor, found = 2048 * BLOCKS["gpt3_175B"][0], dict[str, tuple[float, float]]()
    operands = {node.name: node.operands for node in plan.workload.layers}

    def counted(node: str, space: str) -> bool:
        return space != "Weights" or "Weights" in operands[node]

    for entry, layer in zip(plan.workload.distinct(), plan.layers, strict=True):
        spaces = layer.stats.levels[-1]["dataspaces"]
        for node in entry.nodes:
            found[node] = entry.layer.repeat * layer.stats.energy_pj, entry.layer.repeat * sum(
                own["reads"] + own["fills"] + own["updates"] for space, own in spaces.items() if counted(node, space))
    for group in plan.groups:
        for node, cost in zip(group.nodes, group.cost.layers, strict=True):
            found[node] = group.group.repeat * cost.energy_pj, group.group.repeat * sum(
                moved.reads + moved.fills + moved.updates for (level, space), moved in cost.traffic.items()
                if level == plan.hardware.arch.levels[-1].name and counted(node, space))
    write(heading("product", "AccelForge, mJ", "ours, mJ", "more", "DRAM, AccelForge", "DRAM, ours"))
    for node, theirs in known["block"].items():
        energy, words = found[node]
        write(row(node, f"{1e3 * theirs['energy_j']:.2f}", f"{1e-9 * energy:.2f}",
                  f"{1e-9 * energy - 1e3 * theirs['energy_j']:+.2f}", f"{theirs['dram_words'] / tensor:.3g}",
                  f"{words / tensor:.3g}"))
    whole = [1e3 * sum(own["energy_j"] for own in known["block"].values()), 1e-9 * plan.stats.energy_pj]
    write(row("all", *(f"{energy:.2f}" for energy in whole), f"{whole[1] - whole[0]:+.2f}",
              f"{sum(own['dram_words'] for own in known['block'].values()) / tensor:.3g}",
              f"{sum(words for _, words in found.values()) / tensor:.3g}"))


def unfused_products(known: dict[str, Any], folder: Path, write: Callable[[str], None]) -> None:
    """One line for each product of the block by itself: energies, their difference by component, and times."""
    machine = known["designs"]["tpu_v4i"]
    found = one_by_one(planned("tpu_v4i", "gpt3_175B", machine, folder), "tpu_v4i", machine, folder)
    parts = ("LocalBuffer", "GlobalBuffer", "MainMemory", "MAC")
    write(heading("product", "AccelForge, mJ", "ours, mJ", "one head after the other, mJ", *parts, "AccelForge, ms",
                  "ours, ms"))
    for node, theirs in known["unfused_block"].items():
        runs, stats, alone = found[node]
        own = stats.component_energies()
        write(row(node, f"{1e3 * sum(theirs[part] for part in parts):.2f}", f"{1e-9 * runs * stats.energy_pj:.2f}",
                  f"{1e-9 * alone:.2f}", *(f"{1e-9 * runs * own[part] - 1e3 * theirs[part]:+.2f}" for part in parts),
                  f"{1e3 * theirs['latency_s']:.4f}", f"{1e3 * runs * stats.cycles / CLOCK['tpu_v4i']:.4f}"))


def one_by_one(plan: NetworkResult, machine: str, energies: dict[str, Any],
               folder: Path) -> dict[str, tuple[int, Stats, float]]:
    """Each product by itself: the number of its runs, the numbers of one, and pJ of one head after the other.

    Products of all heads run head by head or, where that is better, as one problem with the heads as a dimension, as
    AccelForge has them.
    """
    found = {}
    for entry, layer in zip(plan.workload.distinct(), plan.layers, strict=True):
        times, stats = entry.layer.repeat, layer.stats
        best, alone = (times, stats), times * stats.energy_pj
        if times > 1:
            (folder / "heads.yaml").write_text(design(machine, energies, 16, "NMCPQRSG"), "utf-8")
            whole = map_network(over_heads("heads", entry.layer), folder / "heads.yaml", NetworkOptions(fuse=False))
            own = whole.layers[0].stats
            best = (1, own) if own.edp < times * times * stats.edp else best
        found |= dict.fromkeys(entry.nodes, (*best, alone))
    return found


def main() -> None:
    """Prints one line for each machine, workload and mode."""
    parser = argparse.ArgumentParser(description="AccelForge's recorded optima beside our plans")
    add_output(parser)
    parser.add_argument("--products", action="store_true", help="the fused block of GPT-3 175B product by product")
    parser.add_argument("--traffic", action="store_true", help="bits of DRAM behind a buffer without bounds")
    options = parser.parse_args()
    known = json.loads((FOLDER / "accelforge_optima.json").read_text("utf-8"))
    if options.products or options.traffic:
        with markdown(options.output) as write, TemporaryDirectory() as folder:
            (products if options.products else traffic)(known, Path(folder), write)
            if options.products:
                write("\n## Unfused\n")
                unfused_products(known, Path(folder), write)
        return
    optima = {(each["design"], each["workload"], each["fusion"]): each for each in known["optima"]}
    with markdown(options.output) as write, TemporaryDirectory() as folder:
        write(heading("machine", "workload", "fusion", "AccelForge, J", "ours, J", "AccelForge, s", "ours, s",
                      "EDP over AccelForge's", "saved by fusion, AccelForge and ours", "s of planning"))
        for machine, workload in dict.fromkeys(key[:2] for key in optima):
            begun = time.monotonic()
            plan = planned(machine, workload, known["designs"][machine], Path(folder))
            seconds = time.monotonic() - begun
            theirs, ours = {}, {}
            alone = [(runs * own.energy_pj, runs * own.cycles) for runs, own, _ in one_by_one(
                plan, machine, known["designs"][machine], Path(folder)).values()]
            unfused = OperatingPoint(sum(energy for energy, _ in alone), sum(cycles for _, cycles in alone))
            for mode, stats in (("unfused", unfused), ("fused", min(plan.stats, unfused, key=lambda own: own.edp))):
                known_one = optima[machine, workload, mode]
                theirs[mode] = [known_one[f"{what}"] - known_one[f"no_product_{what}"]
                                for what in ("energy_j", "latency_s")]
                ours[mode] = [stats.energy_pj / 1e12, stats.cycles / CLOCK[machine]]
                edp, their_edp = (one[mode][0] * one[mode][1] for one in (ours, theirs))
                saved = "" if mode == "unfused" else " and ".join(
                    f"{1 - one['fused'][0] * one['fused'][1] / one['unfused'][0] / one['unfused'][1]:.1%}"
                    for one in (theirs, ours))
                write(row(machine, workload, mode, f"{theirs[mode][0]:.4g}", f"{ours[mode][0]:.4g}",
                          f"{theirs[mode][1]:.4g}", f"{ours[mode][1]:.4g}", f"{edp / their_edp:.3f}", saved,
                          f"{seconds:.1f}"))


if __name__ == "__main__":
    main()
