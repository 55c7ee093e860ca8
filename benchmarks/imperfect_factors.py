"""Residual factors (Timeloop's imperfect factors, Ruby) against factors that divide their dimensions.

    python benchmarks/imperfect_factors.py [--design NAME] [--network resnet50] [--simba X,Y,MACS,LANES] [--seed K]

Every distinct layer of ResNet-18, VGG-16, VGG-19, MobileNetV1 and a GPT-3 block (49 shapes), or of ResNet-50, is mapped
without and with residual factors. `--simba 5,3,4,4` takes the layers of ResNet-50 on `simba_like` with a mesh of 5 x 3
PEs, each with 4 vector MACs of 4 lanes, all else unchanged. Where the real `timeloop-model` is on the PATH it evaluates
every mapping, and every number is compared. EDPs are Timeloop's; the last but one column has them without its faults of
rounding.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
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
from fadiff_mapper.timeloop.find_programs import find_real
from fadiff_mapper.timeloop.verify import MODEL, verify
from fadiff_mapper.workload.readers.load_network import load_network

NETWORKS = ("resnet18", "vgg16", "vgg19", "mobilenet_v1", "gpt3_6b7_block")
"""Networks whose distinct layers are the 49 shapes."""


@dataclass(frozen=True)
class Layer:
    """One distinct layer.

    Attributes:
        name: Its name.
        spec: The layer on a design.
        times: How often the network runs it.
    """

    name: str
    spec: Spec
    times: int = 1


@dataclass(frozen=True)
class Pair:
    """One layer without and with residual factors.

    Attributes:
        layer: The layer.
        perfect: The result without.
        imperfect: The result with.
        seconds: Seconds that the second search took longer.
        verdict: Real Timeloop's answer to the second mapping, in words.
    """

    layer: Layer
    perfect: Result
    imperfect: Result
    seconds: float
    verdict: str

    @property
    def corrected(self) -> float:
        """EDP of the second mapping without Timeloop's faults of rounding."""
        last = self.imperfect.history[-1]
        return float(last["value"]) if last["stage"] == "residuals" else self.perfect.stats.edp


def main() -> None:
    """Runs the benchmark; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", choices=designs(), help="one design only")
    parser.add_argument("--network", choices=["resnet50"], help="the layers of this network instead")
    parser.add_argument("--simba", type=units, metavar="X,Y,MACS,LANES", help="simba_like with so many units")
    parser.add_argument("--seed", type=int, default=0)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        write(heading("design", "layer", "EDP without", "EDP with", "with / without", "without faults of rounding",
                      "EDP / lower bound", "more s", "timeloop-model"))
        if options.simba:
            with tempfile.TemporaryDirectory() as folder:
                layers = resnet50(simba_of(options.simba, Path(folder)))
            name = "simba_like {} x {} x {} x {}".format(*options.simba)
            summarize(name, [compared(name, layer, options.seed, write) for layer in layers], write)
            return
        for design in designs() if options.design is None else [options.design]:
            layers = resnet50(find(f"arch/{design}")) if options.network else shapes(design)
            summarize(design, [compared(design, layer, options.seed, write) for layer in layers], write)


def shapes(design: str) -> list[Layer]:
    """The 49 shapes on a design."""
    seen: dict[str, str] = {}
    for name in listing():
        parts = name.split("/")
        if parts[0] == "layers" and parts[1] in NETWORKS:
            problem = yaml.safe_load(find(name).read_text(encoding="utf-8"))["problem"]
            seen.setdefault(str([problem["shape"], sorted(problem["instance"].items())]), name)
    return [Layer(name.removeprefix("layers/"), load(find(f"arch/{design}"), find(name))) for name in seen.values()]


def units(text: str) -> tuple[int, int, int, int]:
    """PEs along X and along Y, vector MACs of a PE, and lanes of each, from "5,3,4,4"."""
    x, y, macs, lanes = (int(part) for part in text.split(","))
    return x, y, macs, lanes


def simba_of(counts: tuple[int, int, int, int], folder: Path) -> Path:
    """`simba_like` with other numbers of units."""
    text = find("arch/simba_like").read_text(encoding="utf-8")
    x, y, macs, lanes = counts
    for old, new in (("{meshX: 4, meshY: 4}", f"{{meshX: {x}, meshY: {y}}}"), ("{meshX: 8}", f"{{meshX: {macs}}}"),
                     ("{meshY: 8}", f"{{meshY: {lanes}}}")):
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
    specs = specs_of(workload, design)
    return [Layer(" ".join(f"{name}{bound}" for name, bound in spec.problem.bounds.items() if bound > 1), spec,
                  entry.times) for spec, entry in zip(specs, workload.distinct(), strict=True)]


def compared(design: str, layer: Layer, seed: int, write: Write) -> Pair:
    """Maps one layer both ways and writes its row."""
    start = time.process_time()
    perfect = map_layer(layer.spec, SearchOptions(metrics=("edp",), seed=seed, threads=1))
    half = time.process_time()
    imperfect = map_layer(layer.spec, SearchOptions(metrics=("edp",), seed=seed, threads=1, imperfect=True))
    more = time.process_time() - half - (half - start)
    program = find_real(MODEL)
    verdict = "not asked"
    if program is not None:
        said = verify(imperfect.spec, imperfect.mapping, imperfect.stats, program)
        verdict = f"{said.numbers} numbers equal" if said.equal else f"DIFFERS: {'; '.join(said.differences[:3])}"
    pair = Pair(layer, perfect, imperfect, more, verdict)
    value, bound = imperfect.stats.edp, imperfect.bound
    write(row(design, layer.name, f"{perfect.stats.edp:.5g}", f"{value:.5g}", f"{value / perfect.stats.edp:.4f}",
              f"{pair.corrected / perfect.stats.edp:.4f}", f"{value / bound.edp:.3f}" if bound else "-", f"{more:.1f}",
              verdict))
    return pair


def summarize(design: str, pairs: list[Pair], write: Write) -> None:
    """Writes the means of a design, and the sums of its network."""
    def mean(values: list[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values))

    shorter = [pair.imperfect.stats.edp / pair.perfect.stats.edp for pair in pairs]
    corrected = [pair.corrected / pair.perfect.stats.edp for pair in pairs]
    sums = {name: sum(result(pair).stats.energy_pj * pair.layer.times for pair in pairs)
            * sum(result(pair).stats.cycles * pair.layer.times for pair in pairs)
            for name, result in (("perfect", lambda pair: pair.perfect), ("imperfect", lambda pair: pair.imperfect))}
    equal = sum("equal" in pair.verdict for pair in pairs)
    write(row(design, f"geometric mean of {len(pairs)}", "", "", f"{mean(shorter):.4f}", f"{mean(corrected):.4f}", "",
              f"{max(pair.seconds for pair in pairs):.1f} at most", f"{equal} of {len(pairs)} equal"))
    write(row(design, "energies and cycles of all layers, summed", f"{sums['perfect']:.5g}", f"{sums['imperfect']:.5g}",
              f"{sums['imperfect'] / sums['perfect']:.4f}", "", "", "",
              f"{sum(ratio < 1 - 1e-9 for ratio in shorter)} layers better"))


if __name__ == "__main__":
    main()
