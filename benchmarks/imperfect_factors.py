"""Residual factors (Timeloop's imperfect factors, Ruby) against factors that divide their dimensions.

    python benchmarks/imperfect_factors.py [--every N] [--seed K] [-o FILE]

Every distinct layer of ResNet-18, VGG-16, VGG-19, MobileNetV1 and a GPT-3 block (49 shapes) is mapped without and with
residual factors on every bundled design, and every layer of ResNet-50 on the two designs of Ruby's kind. The third row
of ResNet-50 has `simba_like` with other numbers of units (`UNITS`). EDPs are Timeloop's; "without faults of rounding"
has them without its own (`model/evaluate.py:UNROUNDED`).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from provenance import Write, add_output, heading, markdown, row
from resnet50 import write_resnet50

from fadiff_mapper import SearchOptions, load, map_layer
from fadiff_mapper.api import Result
from fadiff_mapper.base.bundled_files import designs, find, listing
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.workload.readers.load_network import load_network

NETWORKS = ("resnet18", "vgg16", "vgg19", "mobilenet_v1", "gpt3_6b7_block")
"""Networks whose distinct layers are the 49 shapes."""
LIKE_RUBYS = ("eyeriss_like", "simba_like")
"""Designs on which ResNet-50 is mapped, as by Ruby."""
UNITS = (("{meshX: 4, meshY: 4}", "{meshX: 5, meshY: 3}"), ("{meshX: 8}", "{meshX: 4}"), ("{meshY: 8}", "{meshY: 4}"))
"""Fan-outs of `simba_like`, and others: 5 x 3 PEs, each with 4 vector MACs of 4 lanes."""
MUCH = 0.9
"""Ratio of EDPs below which a layer is listed by itself."""


@dataclass(frozen=True)
class Layer:
    """One distinct layer.

    Attributes:
        name: Its name.
        spec: The layer on a design.
    """

    name: str
    spec: Spec


@dataclass(frozen=True)
class Pair:
    """One layer without and with residual factors.

    Attributes:
        layer: The layer.
        perfect: The result without.
        imperfect: The result with.
        seconds: Seconds of processor time that the second search took longer.
    """

    layer: Layer
    perfect: Result
    imperfect: Result
    seconds: float

    @property
    def ratio(self) -> float:
        """EDP with residual factors over EDP without."""
        return self.imperfect.stats.edp / self.perfect.stats.edp

    @property
    def unrounded(self) -> float:
        """The same without Timeloop's faults of rounding."""
        last = self.imperfect.history[-1]
        return float(last["value"]) / self.perfect.stats.edp if last["stage"] == "residuals" else 1.0

    @property
    def above_bound(self) -> float:
        """EDP with residual factors over the lower bound of all mappings with any whole factors."""
        assert self.imperfect.bound is not None
        return self.imperfect.stats.edp / self.imperfect.bound.edp


def main() -> None:
    """Maps all layers of all designs and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take every N-th layer")
    parser.add_argument("--seed", type=int, default=0)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        write(f"## Designs\n\n{HEADING}")
        pairs = {name: summarized(name, shapes(name)[::options.every], options.seed, write) for name in designs()}
        write("\n## Layers that gain most\n")
        write(heading("design", "layer", "with / without", "without faults of rounding", "EDP / lower bound"))
        for name, own in pairs.items():
            for pair in sorted(own, key=lambda pair: pair.ratio):
                if pair.ratio < MUCH:
                    write(row(f"`{name}`", pair.layer.name, f"{pair.ratio:.4f}", f"{pair.unrounded:.4f}",
                              f"{pair.above_bound:.3f}"))
        write(f"\n## ResNet-50\n\n{HEADING}")
        for name, file in {**{name: find(f"arch/{name}") for name in LIKE_RUBYS},
                           "simba_like, other units": other_units(Path(folder))}.items():
            summarized(name, resnet50(file)[::options.every], options.seed, write)


HEADING = heading("design", "layers", "with / without, geometric mean", "without faults of rounding",
                  "layers that gain", "best", "EDP / lower bound: least / median / worst",
                  "more CPU s: median / most")


def shapes(design: str) -> list[Layer]:
    """The 49 shapes on a design."""
    seen: dict[str, str] = {}
    for name in listing():
        parts = name.split("/")
        if parts[0] == "layers" and parts[1] in NETWORKS:
            problem = yaml.safe_load(find(name).read_text(encoding="utf-8"))["problem"]
            seen.setdefault(str([problem["shape"], sorted(problem["instance"].items())]), name)
    return [Layer(name.removeprefix("layers/"), load(find(f"arch/{design}"), find(name))) for name in seen.values()]


def other_units(folder: Path) -> Path:
    """`simba_like` with the fan-outs of `UNITS`."""
    text = find("arch/simba_like").read_text(encoding="utf-8")
    for old, new in UNITS:
        if text.count(old) != 1:
            raise SystemExit(f"simba_like: {text.count(old)} fan-outs {old}; accepted: one")
        text = text.replace(old, new)
    path = folder / "simba.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def resnet50(design: Path) -> list[Layer]:
    """The distinct layers of ResNet-50 on a design."""
    with tempfile.TemporaryDirectory() as folder:
        workload = load_network(write_resnet50(Path(folder)))
    return [Layer(" ".join(f"{name}{bound}" for name, bound in spec.problem.bounds.items() if bound > 1), spec)
            for spec in specs_of(workload, design)]


def summarized(design: str, layers: Sequence[Layer], seed: int, write: Write) -> list[Pair]:
    """Maps layers both ways and writes the row of their design."""
    pairs = [mapped(layer, seed) for layer in layers]
    ratios, bounds = [pair.ratio for pair in pairs], [pair.above_bound for pair in pairs]
    more = [pair.seconds for pair in pairs]
    write(row(f"`{design}`", len(pairs), f"{statistics.geometric_mean(ratios):.4f}",
              f"{statistics.geometric_mean(pair.unrounded for pair in pairs):.4f}",
              sum(ratio < 1 - 1e-9 for ratio in ratios), f"{min(ratios):.3f}",
              f"{min(bounds):.3f} / {statistics.median(bounds):.3f} / {max(bounds):.2f}",
              f"{statistics.median(more):.1f} / {max(more):.1f}"))
    return pairs


def mapped(layer: Layer, seed: int) -> Pair:
    """Maps one layer both ways."""
    start = time.process_time()
    perfect = map_layer(layer.spec, SearchOptions(metrics=("edp",), seed=seed, threads=1))
    half = time.process_time()
    imperfect = map_layer(layer.spec, SearchOptions(metrics=("edp",), seed=seed, threads=1, imperfect=True))
    return Pair(layer, perfect, imperfect, time.process_time() - half - (half - start))


if __name__ == "__main__":
    main()
