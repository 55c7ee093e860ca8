#!/usr/bin/env python3
"""A correction of cycles to measured hardware, judged beside the exact model; and what it changes in a design.

    python benchmarks/calibration.py MEASURED.csv [--seeds N] [--network NAME ...] [--evaluations N] [-o FILE]

First the correction. For each seed the layers are split into five folds; every point that no search proposed is
predicted by the fit to the other folds. A row has the rank correlation (Spearman) of all points together and its range
over the folds, and the mean of |predicted / measured - 1|, beside the same of the exact model; then those of the points
that searches proposed, which the fit never sees.

Then DOSA's networks on Gemmini's own design (16 x 16, 32 KB, 128 KB): mappings that the exact model prefers beside
those chosen by corrected cycles; and on DOSA's space with the side held at 16, the memories free: one search by the
exact model, one by corrected cycles, over the same random designs. All cycles are corrected ones, EDP in uJ x cycles.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from design_methods import PJ_PER_UJ, default_point, dosa_network
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import read_space
from fadiff_mapper.base.bundled_files import one_path
from fadiff_mapper.calibration.calibrate import FOLDS, calibrate, fold_of_layers, points_of, predicted_unseen, verdict
from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.calibration.measured_points import MeasuredLayer, read_measured
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.design.space import DesignSpace
from fadiff_mapper.inputs.load import read_document
from fadiff_mapper.network.result import NetworkResult

NETWORKS = ("unet", "resnet50", "bert", "retinanet")
SPACE = "bundled:spaces/dosa_gemmini"
SIDE = "side: {path: PEColumns.spatial.meshX, range: [2, 128], step: 2}"


def judge(layers: tuple[MeasuredLayer, ...], seeds: int, write: Write) -> Calibration:
    """Writes the verdicts of all seeds; returns the calibration of the first."""
    found = [calibrate(layers, program="gemmini", seed=seed) for seed in range(seeds)]
    write("## Prediction\n")
    write(heading("points", "seed", "rank correlation", "of each fold", "exact model", "mean error", "exact model"))
    points = points_of(layers, "gemmini", found[0].word_bytes)
    learned = ~points.searched
    for seed, calibration in enumerate(found):
        folds = fold_of_layers(layers, seed)
        predicted, fold, unseen = predicted_unseen(points, folds), folds[points.layer], calibration.unseen
        own = [verdict(*(values[learned & (fold == number)] for values in (predicted, points.exact, points.measured)))
               for number in range(FOLDS)]
        write(row("unseen layers", seed, f"{unseen.spearman:.4f}",
                  f"{min(each.spearman for each in own):.3f} to {max(each.spearman for each in own):.3f} (exact model "
                  f"{min(each.exact_spearman for each in own):.3f} to {max(each.exact_spearman for each in own):.3f})",
                  f"{unseen.exact_spearman:.4f}", f"{unseen.error:.1%}", f"{unseen.exact_error:.1%}"))
    searched = found[0].searched
    if searched:
        write(row("searched points", "", f"{searched.spearman:.4f}", "", f"{searched.exact_spearman:.4f}",
                  f"{searched.error:.1%}", f"{searched.exact_error:.1%}"))
    return found[0]


def preferred(network: NetworkResult) -> tuple[float, float]:
    """Corrected cycles, and energy in pJ, of the mappings that the exact model prefers."""
    corrected = [(layer.count, layer.result.corrected) for layer in network.layers if layer.result.corrected]
    return (sum(count * each.exact_choice_cycles for count, each in corrected),
            sum(count * each.exact_choice_energy_pj for count, each in corrected))


def on_default(question: DesignQuestion, write: Write) -> None:
    """Writes what the correction changes in the mappings of Gemmini's own design."""
    mapped = DesignBench(question, None).networks_at(default_point(question.space))[0]
    cycles, energy = preferred(mapped)
    corrected = mapped.corrected_cycles or 0.0
    edp = mapped.stats.energy_pj * corrected
    changed = sum(abs(layer.result.corrected.cycles - layer.result.corrected.exact_choice_cycles) > 1
                  for layer in mapped.layers if layer.result.corrected)
    write(row(question.networks[0].name, f"{cycles:.4g}", f"{energy * cycles / PJ_PER_UJ:.4g}", f"{corrected:.4g}",
              f"{edp / PJ_PER_UJ:.4g}", f"{energy * cycles / edp:.3f}", f"{changed} of {len(mapped.layers)}"))


def compare(question: DesignQuestion, evaluations: int, write: Write) -> None:
    """Writes the design that the exact model prefers and the one that corrected cycles prefer."""
    with tempfile.TemporaryDirectory() as folder:
        random = replace(question.options, method="random", evaluations=evaluations, neighbours=False, prune=False)
        exact, best = (search_design(replace(question, options=options), DesignWorkers(1, store=folder)).best
                       for options in (replace(random, calibration=None), random))
        bench = DesignBench(question, Path(folder))
        by_exact, mapped = evaluate_design(bench, exact.point), bench.networks_at(exact.point)[0]
    cycles, energy = preferred(mapped)
    write(row(question.networks[0].name, size(exact), f"{cycles:.4g}", f"{energy * cycles / PJ_PER_UJ:.4g}",
              f"{by_exact.cycles:.4g}", f"{by_exact.edp / PJ_PER_UJ:.4g}", size(best), f"{best.cycles:.4g}",
              f"{best.edp / PJ_PER_UJ:.4g}", f"{energy * cycles / best.edp:.3f}"))


def size(outcome: DesignOutcome) -> str:
    """The memories of a design."""
    return "{accumulator_kb} KB, {scratchpad_kb} KB".format(**outcome.parameters)


def side_of_16() -> DesignSpace:
    """DOSA's space with the side held at 16."""
    text = Path(one_path(SPACE)).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "side16.yaml"
        held.write_text(text.replace(SIDE, SIDE.replace("range: [2, 128], step: 2", "values: [16]")), encoding="utf-8")
        return read_space(str(held), energy="dosa")


def main() -> None:
    """Reads the arguments and runs both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", metavar="MEASURED.csv")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--network", action="append", choices=NETWORKS)
    parser.add_argument("--evaluations", type=int, default=8, help="designs (default 8); 0: the first part alone")
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        calibration = judge(read_measured(options.measured, read_document(SPACE)), options.seeds, write)
        if not options.evaluations:
            return
        space = side_of_16()
        asked = DesignOptions(fuse=False, calibration=calibration)
        questions = [DesignQuestion(space, (dosa_network(name),), (1.0,), asked)
                     for name in options.network or NETWORKS]
        write("\n## The default design\n")
        write(heading("network", "cycles, exact model's choice", "EDP", "cycles, corrected choice", "EDP", "gain",
                      "layers mapped otherwise"))
        for question in questions:
            on_default(question, write)
        write("\n## Designs\n")
        write(heading("network", "design by the exact model", "cycles", "EDP", "mapped by corrected cycles", "EDP",
                      "design by corrected cycles", "cycles", "EDP", "gain"))
        for question in questions:
            compare(question, options.evaluations, write)


if __name__ == "__main__":
    main()
