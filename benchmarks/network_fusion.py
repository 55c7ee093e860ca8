"""The EDP that fusion saves on whole networks and on small chains, beside the figures of others: one row each.

    python benchmarks/network_fusion.py [NAME ...] [--design large|small] [-o FILE]

EDP in pJ * cycles is the sum of energies times the sum of cycles. "reference" is the part of the unfused EDP that
AccelForge 1.0.467 saves on an equivalent design, or what a plan made by hand saves; nan where there is none. "90 %"
are the seconds after which the plan had nine tenths of its gain, "gap" the share by which a better plan is possible at
most. A name is a network of the package,
some of its layers one after the other (`network:layer,layer`), or one without an operator (`network-operator`). Every
row has a process of its own, so MB is its peak memory. `network_baselines.py` compares with gradient descent alone.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from math import nan
from multiprocessing import get_context

from papers.partial_network import chain
from provenance import add_output, heading, markdown, row

from fadiff_mapper import map_network
from fadiff_mapper.base import bundled_files

NETWORKS = ("resnet18", "vgg16", "vgg19", "mobilenet_v1", "gpt3_6b7_block")
ATTENTION = "gpt3_6b7_block:q_proj,k_proj,v_proj,qk,softmax,av,out_proj"
REFERENCES = {("gpt3_6b7_block-softmax", "large"): 0.030, ("gpt3_6b7_block-softmax", "small"): 0.101,
              (f"{ATTENTION}-softmax", "large"): 0.077, ("mobilenet_v1:conv1,dw1", "large"): 0.35,
              ("mobilenet_v1:dw7,pw7", "large"): 0.20, ("mobilenet_v1:dw7,pw7", "small"): 0.093,
              ("resnet18:layer1.0.conv1,layer1.0.conv2", "large"): 0.083,
              ("resnet18:layer1.0.conv1,layer1.0.conv2,layer1.1.conv1", "large"): 0.111,
              ("vgg16:conv1_1,conv1_2", "large"): 0.14}
"""(layers, design) -> saved part of the unfused EDP; AccelForge leaves softmax out."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--design", choices=("large", "small"), action="append")
    add_output(parser)
    options = parser.parse_args()
    names = options.names or [*dict.fromkeys(name for name, _ in REFERENCES), ATTENTION, *NETWORKS]
    with (markdown(options.output) as write,
          ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool):
        write(heading("network", "design", "unfused EDP", "plan EDP", "saved", "reference", "gap", "groups", "s",
                      "90 %", "CPU s", "MB"))
        for name in names:
            for design in options.design or ("large", "small"):
                write(pool.submit(measured, name, design).result())


def measured(name: str, design: str) -> str:
    """Plans one network and returns its row of the table."""
    workload, file = chain(name), bundled_files.find(f"arch/gemmini_{design}")
    start = time.process_time()
    result = map_network(workload, file)
    spent, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    enough = result.unfused_stats.edp * (1 - 0.9 * result.gain) * (1 + 1e-12)
    soon = next(step["time_s"] for step in result.history if step["value"] <= enough)
    gap = "" if result.gap is None else f"{result.gap:.2%}"
    return row(name, design, f"{result.unfused_stats.edp:.6g}", f"{result.stats.edp:.6g}", f"{result.gain:.2%}",
               f"{REFERENCES.get((name, design), nan):.2%}", gap, len(result.groups), f"{result.time_s:.1f}",
               f"{soon:.1f}", f"{spent:.1f}", memory)


if __name__ == "__main__":
    main()
