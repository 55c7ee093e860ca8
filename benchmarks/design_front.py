#!/usr/bin/env python3
"""The front of EDP and area of a space of designs: every design that was mapped, and whether it is on the front.

    python benchmarks/design_front.py [--network NAME] [--evaluations N] [-o FILE]

Random designs of the bundled space around `gemmini_large` with the layers of one network, each by itself.
"""

from __future__ import annotations

import argparse

from provenance import add_output, heading, markdown, row

from fadiff_mapper import DesignOptions, DesignWorkers, search_design


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="bundled:networks/resnet18")
    parser.add_argument("--evaluations", type=int, default=100)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        random = DesignOptions(("edp", "area"), fuse=False, method="random", evaluations=options.evaluations,
                               neighbours=False, prune=False)
        result = search_design("bundled:spaces/gemmini_large", options.network, random, workers=DesignWorkers(jobs=1))
        parameters = list(result.front[0].parameters)
        write(heading(*parameters, "area, mm2", "EDP, pJ x cycles", "on the front"))
        for outcome in result.outcomes:
            if outcome.mapped and outcome.feasible:
                write(row(*outcome.parameters.values(), f"{outcome.area_mm2:.4f}", f"{outcome.edp:.6g}",
                          "yes" if outcome.point in {one.point for one in result.front} else ""))


if __name__ == "__main__":
    main()
