"""Networks of layers one by one, proved to have the least EDP: one row for each network on each bundled design.

    python benchmarks/network_proofs.py [NETWORK ...] [--seconds S] [-o FILE]

"apart" is the EDP where every layer has the mapping of its own least EDP, as `map` finds it. Each proof takes so many
seconds at most; CPU s are those of search and proof together.
"""

from __future__ import annotations

import argparse
import time

from network_fusion import NETWORKS
from provenance import add_output, heading, markdown, row

from fadiff_mapper import NetworkOptions, SearchOptions, load_network, map_layers, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.prices import summed
from fadiff_mapper.workload import OperatingPoint

DESIGNS = ("gemmini_small", "gemmini_large", "eyeriss_like", "simba_like", "weight_stationary", "output_stationary")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", choices=[*NETWORKS, []])
    parser.add_argument("--seconds", type=float, default=60)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        write(heading("network", "design", "EDP apart", "EDP, pJ x cycles", "lower by", "gap", "CPU s"))
        for name in options.networks or NETWORKS:
            network = load_network(f"bundled:networks/{name}")
            for design in DESIGNS:
                begun = time.process_time()
                result = map_network(network, bundled_files.find(f"arch/{design}"),
                                     NetworkOptions(fuse=False, threads=1, gap=0.0, time_limit=options.seconds))
                spent = time.process_time() - begun
                alone = map_layers([layer.result.spec for layer in result.layers], SearchOptions(threads=1))
                apart = summed([result.joined, *(OperatingPoint(one.stats.energy_pj, one.stats.cycles).times(own.count)
                                                 for own, one in zip(result.layers, alone, strict=True))]).edp
                write(row(name, design, f"{apart:.7g}", f"{result.stats.edp:.7g}",
                          f"{1 - result.stats.edp / apart:.3%}",
                          "unknown" if result.gap is None else f"{result.gap:.3%}", f"{spent:.1f}"))


if __name__ == "__main__":
    main()
