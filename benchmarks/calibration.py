#!/usr/bin/env python3
"""A correction of cycles to measured hardware, judged beside the exact model; and what it changes in a design.

    python benchmarks/calibration.py MEASURED.csv [--seeds N] [--network NAME ...] [--evaluations N] [-o FILE]

First the correction. For each seed the layers are split into five folds; every point that no search proposed is
predicted by the fit to the other folds. A row has the rank correlation (Spearman) of all points together and its range
over the folds, and the mean of |predicted / measured - 1|, beside the same of the exact model; then those of the points
that searches proposed, which the fit never sees.

Then DOSA's networks on its space with the side held at 16, the memories free: one search by the exact model, one by the
corrected cycles, equally many designs (random ones, the same for both). Cycles of either are corrected ones.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from design_methods import dosa_network
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import read_space
from fadiff_mapper.base.bundled_files import one_path
from fadiff_mapper.calibration.calibrate import FOLDS, calibrate, fold_of_layers, points_of, predicted_unseen, verdict
from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.calibration.measured_points import MeasuredLayer, read_measured
from fadiff_mapper.design.design_options import DesignOptions
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.design.space import DesignSpace
from fadiff_mapper.inputs.load import read_document
from fadiff_mapper.results.designed_machine import DesignOutcome

SPACE = "bundled:spaces/dosa_gemmini"
SIDE = "side: {path: PEColumns.spatial.meshX, range: [2, 128], step: 2}"


def judge(layers: tuple[MeasuredLayer, ...], seeds: int, write: Write) -> Calibration:
    """Writes the verdicts of all seeds; returns the calibration of the first."""
    found = [calibrate(layers, program="gemmini", seed=seed) for seed in range(seeds)]
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
    write(f"\nUnseen layers, median of {seeds} seeds: {statistics.median(c.unseen.spearman for c in found):.4f}.\n")
    return found[0]


def compare(space: DesignSpace, name: str, calibration: Calibration, evaluations: int, write: Write) -> None:
    """Writes the design that the exact model prefers and the one that corrected cycles prefer."""
    exact = DesignQuestion(space, (dosa_network(name),), (1.0,), fuse=False, energy="dosa")
    corrected = replace(exact, calibration=calibration)
    with tempfile.TemporaryDirectory() as folder:
        options = DesignOptions("random", evaluations, jobs=1, neighbours=False, prune=False, store=Path(folder))
        chosen = [search_design(question, options).best for question in (exact, corrected)]
        bench = DesignBench(corrected, Path(folder))
        by_exact, mapped = evaluate_design(bench, chosen[0].point), bench.networks_at(chosen[0].point)[0]
    before = sum(layer.count * layer.result.corrected.exact_choice_cycles for layer in mapped.layers
                 if layer.result.corrected)
    energy = sum(layer.count * layer.result.corrected.exact_choice_energy_pj for layer in mapped.layers
                 if layer.result.corrected)

    def size(outcome: DesignOutcome) -> str:
        return "{accumulator_kb} KB, {scratchpad_kb} KB".format(**outcome.parameters)

    best = chosen[1]
    write(row(name, size(chosen[0]), f"{chosen[0].cycles:.4g}", f"{before:.4g}", f"{energy * before / 1e6:.4g}",
              f"{by_exact.cycles:.4g}", f"{by_exact.edp / 1e6:.4g}", size(best), f"{best.cycles:.4g}",
              f"{best.edp / 1e6:.4g}", f"{energy * before / best.edp:.3f}"))


def main() -> None:
    """Reads the arguments and runs both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", metavar="MEASURED.csv")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--network", action="append", choices=("unet", "resnet50", "bert", "retinanet"))
    parser.add_argument("--evaluations", type=int, default=12, help="designs (default 12); 0: the first part alone")
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        calibration = judge(read_measured(options.measured, read_document(SPACE)), options.seeds, write)
        if not options.evaluations:
            return
        text = one_path(SPACE)
        with tempfile.TemporaryDirectory() as folder:
            held = Path(folder) / "side16.yaml"
            held.write_text(Path(text).read_text(encoding="utf-8").replace(SIDE, SIDE.replace(
                "range: [2, 128], step: 2", "values: [16]")), encoding="utf-8")
            space = read_space(str(held))
            write(heading("network", "design by the exact model", "its cycles", "corrected", "EDP",
                          "mapped by corrected", "EDP", "design by corrected cycles", "corrected", "EDP", "gain"))
            for name in options.network or ("unet", "resnet50", "bert", "retinanet"):
                compare(space, name, calibration, options.evaluations, write)


if __name__ == "__main__":
    main()
