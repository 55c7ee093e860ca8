"""The EDP that fusion saves on whole networks and blocks of language models, with the proven gap: one row each.

    python benchmarks/network_fusion.py [NAME ...] [--design large|small] [--gap G] [-o FILE]

A name is a bundled network, one of `agatf/networks`, or some layers of a bundled one (`network:layer,layer`). By
default all networks are planned on both designs, and the blocks of language models on the large one. EDP in pJ * cycles
is the sum of energies times the sum of cycles. With `--gap` the bound is raised until the plan is within that gap, or
no bound rises further. "90 %" are the seconds after which the plan had nine tenths of its gain,
"gap" the share by which a better plan is possible at most. Every row has a process of its own, so MB is its peak
memory.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from papers.partial_network import chain
from provenance import add_output, heading, markdown, row

from fadiff_mapper import load_network, map_network
from fadiff_mapper.base import bundled_files

NETWORKS = ("resnet18", "vgg16", "vgg19", "mobilenet_v1", "gpt3_6b7_block")
IMPORTED = Path(__file__).parent / "agatf" / "networks"
OTHERS = ("resnet50", "mobilenet_v2", "inception_v3")
BLOCKS = tuple(f"{model}_{phase}" for model in ("llama3_8b", "qwen3_8b", "gemma2_9b", "mixtral_8x7b", "deepseek_v3")
               for phase in ("prefill", "decode"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--design", choices=("large", "small"), action="append")
    parser.add_argument("--gap", type=float)
    add_output(parser)
    options = parser.parse_args()
    with (markdown(options.output) as write,
          ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool):
        write(heading("network", "design", "unfused EDP", "plan EDP", "saved", "gap", "groups", "s", "90 %", "CPU s",
                      "MB"))
        for name in options.names or [*NETWORKS, *OTHERS, *BLOCKS]:
            for design in options.design or (("large",) if name in BLOCKS else ("large", "small")):
                write(pool.submit(measured, name, design, options.gap).result())


def measured(name: str, design: str, asked: float | None) -> str:
    """Plans one network and returns its row of the table."""
    workload = load_network(IMPORTED / f"{name}.yaml") if name in OTHERS else chain(name)
    file = bundled_files.find(f"arch/gemmini_{design}")
    start = time.process_time()
    result = map_network(workload, file, gap=asked)
    spent, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    enough = result.unfused_stats.edp * (1 - 0.9 * result.gain) * (1 + 1e-12)
    soon = next(step["time_s"] for step in result.history if step["value"] <= enough)
    gap = "" if result.gap is None else f"{result.gap:.2%}"
    return row(name, design, f"{result.unfused_stats.edp:.6g}", f"{result.stats.edp:.6g}", f"{result.gain:.2%}", gap,
               len(result.groups), f"{result.time_s:.1f}", f"{soon:.1f}", f"{spent:.1f}", memory)


if __name__ == "__main__":
    main()
