"""How far the differentiable model is from the exact evaluation at integer points, over random mappings.

    python -m benchmarks.smooth_distance [--mappings 200] [--seed 0] [--design NAME ...]

One row per design, operator and kind of mapping: "any" respects the hardware only, "design" also the design's
constraints. Columns:

accuracy   mean of 1 - |smooth - exact| / exact over all access counts (level, data space, action) that are not 0
equal      share of those counts that agree to the word
cycles, energy   relative error: mean, and worst; tau is Kendall's rank correlation with the exact values
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.base import bundled_files
from fadiff_mapper.model.exact.evaluate import Evaluation, evaluate_nest
from fadiff_mapper.model.loop_nest import Nest, pack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth.evaluate import SmoothEvaluation, evaluate_smooth
from fadiff_mapper.spec.spec import Spec
from validation.random_mappings import constrained_nests, random_mapping
from validation.tasks import Task, bundled_tasks

COLUMNS = ("design", "operator", "mappings", "n", "accuracy", "equal", "cycles: mean", "worst", "tau", "energy: mean",
           "worst", "tau")


@dataclass(frozen=True)
class Distance:
    """The columns of one row; errors are relative."""

    mappings: int
    accuracy: float
    equal: float
    cycles: tuple[float, float, float]
    energy: tuple[float, float, float]


def random_nests(layer: PreparedLayer, spec: Spec, count: int, seed: int) -> Nest:
    """Legal nests that respect the hardware only."""
    rng = random.Random(seed)
    nest = pack([random_mapping(spec.arch, spec.problem, rng) for _ in range(count)], spec.problem)
    return nest.take(np.flatnonzero(evaluate_nest(layer, nest).legal))


def both_models(layer: PreparedLayer, nest: Nest) -> tuple[Evaluation, SmoothEvaluation]:
    """The same integer nests under the exact and the smooth model."""
    arrays = (np.ascontiguousarray(getattr(nest, name)) for name in Nest.__dataclass_fields__)
    as_tensors = Nest(*map(torch.from_numpy, arrays))
    with torch.no_grad():
        return evaluate_nest(layer, nest), evaluate_smooth(layer, as_tensors)


def distance(layer: PreparedLayer, nest: Nest) -> Distance:
    """Compares the two models over a batch."""
    exact, smooth = both_models(layer, nest)
    wanted, found = (np.stack([np.asarray(getattr(model.counts, action)) for action in ("reads", "fills", "updates")])
                     for model in (exact, smooth))
    there = wanted > 0
    off = np.abs(found[there] - wanted[there])
    return Distance(nest.batch, float(np.mean(1 - off / wanted[there])), float(np.mean(off < 1)),
                    errors(exact.cycles, smooth.cost.cycles.numpy()), errors(exact.energy, smooth.cost.energy.numpy()))


def errors(exact: np.ndarray, smooth: np.ndarray) -> tuple[float, float, float]:
    """(mean relative error, the worst one, Kendall's tau)."""
    relative = np.abs(smooth / exact - 1)
    return float(relative.mean()), float(relative.max()), kendall(exact, smooth)


def kendall(first: np.ndarray, second: np.ndarray) -> float:
    """Kendall's tau-b of two rankings; values that agree to one part in a million are ties."""
    one, two = (np.sign(np.round(np.log(values)[:, None] - np.log(values)[None], 6)) for values in (first, second))
    return float((one * two).sum() / np.sqrt((one ** 2).sum() * (two ** 2).sum()))


def rows(designs: list[str], count: int, seed: int) -> Iterator[tuple[Task, str, Distance]]:
    for task in bundled_tasks(designs):
        for kind, nests in (("any", random_nests), ("design", constrained_nests)):
            nest = nests(task.layer, task.spec, count, seed)
            if nest.batch > 1:
                yield task, kind, distance(task.layer, nest)


def summary(kind: str, found: list[Distance]) -> str:
    accuracy = [at.accuracy for at in found]
    return (f"{kind}: mean accuracy {np.mean(accuracy):.4f}, lowest {min(accuracy):.4f}; counts equal "
            f"{np.mean([at.equal for at in found]):.3f}; lowest tau of cycles {min(at.cycles[2] for at in found):.3f}, "
            f"of energy {min(at.energy[2] for at in found):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mappings", type=int, default=200, help="random mappings of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--design", nargs="*", default=list(bundled_files.designs()), help="bundled designs")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    found: dict[str, list[Distance]] = {"any": [], "design": []}
    for task, kind, at in rows(options.design, options.mappings, options.seed):
        found[kind].append(at)
        both = " | ".join(f"{mean:.2%} | {worst:.1%} | {tau:.3f}" for mean, worst, tau in (at.cycles, at.energy))
        print(f"| {task.design} | {task.operator} | {kind} | {at.mappings} | {at.accuracy:.4f} | {at.equal:.3f} | "
              f"{both} |", flush=True)
    print("\n" + "\n".join(summary(kind, part) for kind, part in found.items() if part))


if __name__ == "__main__":
    main()
