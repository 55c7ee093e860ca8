"""Public Timeloop inputs that load and map: every design, layer and tutorial of checkouts given by path.

    python benchmarks/public_files.py [--exercises DIR] [--baseline DIR] [--dosa DIR] [--cosa DIR] [--frontend DIR]
                                      [--sparseloop DIR] [--sparsenaas DIR] [--seconds S] [--at-most N] [-o FILE]

Each input is read strictly and leniently, and then mapped (or, where it has a mapping, evaluated) as the launchers do
it: leniently, with the input's own sections, for `--seconds` at most. Layers are read one by one on a design, and
mapped once for each distinct problem. The tables say how a strict reading ends, each warning of a lenient one, and the
result of the run or the reason of a refusal. Sparseloop's artifact and SparseNAAS come as hundreds of runs, so one row
stands for all that end alike. The last table counts the inputs of each checkout.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import evaluate, map_layer
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load, read_document
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.timeloop.calls import call_mapper, call_model

LAYER_DESIGN = "eyeriss_like"
"""The design on which layers of the exercises and of the baseline designs are read."""
SMALL_LAYER = Path(__file__).with_name("small_layer.yaml")
"""The layer on which the examples of the front end are read, which have none of their own."""
PRODUCTS, PRODUCT_DESIGN = "MM", "sparse_tensor_core_like"
"""The folder of the exercises' matrix products A B = Z, and the design on which they are read."""
ISPASS, INTERFACE = "01_accelergy_timeloop_2020_ispass", "02_interface_and_design_space_exploration_2024"
"""Folders of the tutorials that have input for Timeloop's mapper or model; the others have notebooks only."""


Table = Callable[[Write, str, Sequence["PublicInput"], argparse.Namespace], Counter[str]]
"""Writes a table of inputs under a title; returns the counts of `TOTALS`."""


@dataclass(frozen=True)
class PublicInput:
    """One run of a public workspace.

    Attributes:
        name: Its name in the table.
        files: The files.
        variables: Values of the files' Jinja2 variables, as the workspace's own script gives them.
    """

    name: str
    files: tuple[Path, ...]
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """One input, read.

    Attributes:
        spec: The lenient reading, None where it is refused.
        refusal: The reason of that, else an empty string.
        strict: The reason why a strict reading refuses it, else an empty string.
    """

    spec: Spec | None
    refusal: str
    strict: str


# The inputs of each workspace.

def designs(exercises: Path) -> Iterator[PublicInput]:
    """The designs of the exercises, as `run_example_designs.py` runs them."""
    root = exercises / "workspace/example_designs/example_designs"
    for arch in sorted(root.rglob("arch.yaml")):
        name = str(arch.parent.relative_to(root))
        yield PublicInput(name, (root / "top.yaml.jinja2",), {"architecture": name})


def layers(exercises: Path) -> Iterator[PublicInput]:
    """Every layer file of the exercises on a design that names the same tensors."""
    root = exercises / "workspace/example_designs"
    for file in sorted((root / "layer_shapes").rglob("*.yaml")):
        name = file.relative_to(root / "layer_shapes")
        design = PRODUCT_DESIGN if name.parts[0] == PRODUCTS else LAYER_DESIGN
        variables = {"architecture": design, "problem": str(file.resolve())}
        yield PublicInput(str(name), (root / "example_designs/top.yaml.jinja2",), variables)


def tutorials(exercises: Path) -> Iterator[PublicInput]:
    """The runs of the tutorials' scripts and notebooks that call Timeloop's mapper or model."""
    root = exercises / "workspace/tutorial_exercises"
    for folder in sorted(path for path in (root / ISPASS / "timeloop").iterdir() if (path / "arch").is_dir()):
        common = _yaml(folder, "arch", "arch/components", "mapper", "prob")
        for choice in (*_yaml(folder, "map", "constraints"), None):
            if choice is not None or not any((folder / name).is_dir() for name in ("map", "constraints")):
                yield PublicInput(f"{folder.name} {choice.stem if choice else ''}".strip(),
                                  (*common, choice) if choice else common)
    folder = root / ISPASS / "timeloop+accelergy"
    for kind, operand, psum in (("intmac", 8, 16), ("fpmac", 32, 32)):
        yield PublicInput(f"timeloop+accelergy {kind}",
                          (folder / "arch/arch.yaml", *_yaml(folder, "arch/components", "mapper", "prob")),
                          {"mac_class": kind, "input_weight_datawidth": operand, "psum_datawidth": psum})
    folder = root / INTERFACE
    yield PublicInput("interface: files", _yaml(folder, "inputs"))
    for name, variables in (("template", {}), ("16-bit data", {"datawidth_jinja": 16}),
                            ("no register", {"reg_enabled": False})):
        yield PublicInput(f"interface: {name}", (folder / "top.yaml.jinja",), variables)


def baseline(checkout: Path) -> Iterator[PublicInput]:
    """The baseline designs with the layer of their example outputs."""
    for folder in sorted(path for path in (checkout / "arch").iterdir() if (path / "arch").is_dir()):
        yield PublicInput(folder.name, (folder / "arch" / f"{folder.name}.yaml", *_yaml(
            folder, "arch/components", "constraints", "mapper"), checkout / "workload/AlexNet/AlexNet_layer1.yaml"))


def baseline_layers(checkout: Path) -> Iterator[PublicInput]:
    """Every layer file of the baseline designs on one of them."""
    folder = checkout / "arch" / LAYER_DESIGN
    for file in sorted((checkout / "workload").rglob("*.yaml")):
        yield PublicInput(str(file.relative_to(checkout / "workload")), (
            folder / "arch" / f"{LAYER_DESIGN}.yaml", *_yaml(folder, "arch/components"), file))


def architectures(checkout: Path, folder: str, layer: str) -> Iterator[PublicInput]:
    """The architectures of DOSA or CoSA with a layer of the same repository."""
    for file in sorted(path for path in (checkout / folder).rglob("*.yaml") if path.parent.name == "arch"):
        yield PublicInput(str(file.relative_to(checkout / folder)), (file, checkout / layer))


def sparseloop(checkout: Path) -> Iterator[PublicInput]:
    """The runs of Sparseloop's MICRO 2022 artifact, figure by figure, as its scripts put their files together."""
    root = checkout / "workspace/2022.micro.artifact/evaluation_setups"
    folder = root / "fig1_format_comparison_setup"
    common = _yaml(folder, "arch", "dataflow", "mapper", "ert_art")
    for problem in sorted((folder / "workload").glob("*.yaml")):
        for formats in ("bitmask", "coordinate_list"):
            yield PublicInput(f"figure 1, {formats}: {problem.stem}",
                              (problem, folder / f"sparse-opt/{formats}.yaml", *common))
    folder = root / "fig12_eyerissv2_pe_setup"
    tables = (folder / "ert_art/ERT.yaml", folder / "ert_art/ART.yaml", folder / "hardware-specs/designs/arch.yaml")
    points = folder / "design-points/mobilenet0.5-sparse_with_actual.yaml"
    for point in yaml.safe_load(points.read_text(encoding="utf-8")):
        network, layer, densities = (str(point[key]) for key in ("workloadID", "layerID", "densityID"))
        yield PublicInput(f"figure 12, {densities}: {layer}", (
            folder / f"workload/{network}/{densities}/{layer}.yaml", *tables,
            folder / f"hardware-specs/configurations/{point['configID']}.yaml",
            folder / f"mappings/{network}/{layer}-perfect_factor.yaml"))
    for figure, pattern in (("figure 13", "fig13*/ref_outputs"), ("figure 15", "fig15*/ref_outputs"),
                            ("table 7", "table7*/*outputs")):
        for file in sorted(root.glob(f"{pattern}/**/aggregated_input.yaml")):
            design = file.parent.name if figure == "figure 15" else file.parents[1].name
            yield PublicInput(f"{figure}, {design}: {file.parents[1].name} {file.parent.name}", tuple(
                path for name in ("aggregated_input", "ERT", "ART", "map")
                if (path := file.parent / f"{name}.yaml").exists()))


def sparsenaas(checkout: Path) -> Iterator[PublicInput]:
    """The designs with problem, mapping and sparse optimizations that SparseNAAS gave to Timeloop."""
    for file in sorted((checkout / "SparseNAAS/data/timeloop").glob("hw_.yaml*")):
        yield PublicInput(f"runs: {file.name}", tuple(
            file.with_name(file.name.replace("hw_", part)) for part in ("hw_", "mapping_", "problem_", "sparse_")))


def examples(checkout: Path) -> Iterator[PublicInput]:
    """The examples of the Python front end that no other repository has, on a layer that fits them."""
    for path in sorted((checkout / "arch_spec_examples/simple_pim").glob("*.yaml")):
        yield PublicInput(f"simple_pim/{path.name}", (path, SMALL_LAYER))


def _yaml(folder: Path, *inside: str) -> tuple[Path, ...]:
    return tuple(file for name in inside for file in sorted((folder / name).glob("*.yaml")))


# Reading and running.

def read(given: PublicInput) -> Reading:
    """Reads an input strictly and leniently."""
    def reading(strict: bool) -> tuple[Spec | None, str]:
        try:
            return load(*given.files, jinja_data=given.variables, strict=strict), ""
        except FadiffError as error:
            return None, shortened(str(error).splitlines()[0])

    spec, refusal = reading(strict=False)
    return Reading(spec, refusal, refusal if refusal else reading(strict=True)[1])


def run(given: PublicInput, spec: Spec, seconds: float) -> str:
    """Maps or evaluates an input as the launchers do; the cell of the table that says so."""
    document: Map | list[Path] = (read_document(*given.files, jinja_data=given.variables) if given.variables
                                  else list(given.files))
    specification = dict(document) if isinstance(document, Map) else document
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        try:
            found = (call_mapper(specification, folder, time_limit=seconds) if spec.mapping is None
                     else call_model(specification, folder))
        except FadiffError as error:
            return f"no result: {str(error).splitlines()[0]}"
    verb = "mapped" if spec.mapping is None else "evaluated"
    return f"{verb}: {found.cycles} cycles, {found.energy * 1e6:.4g} uJ"


def outcome(reading: Reading, seconds: float) -> str:
    """"evaluated", "mapped", or the reason of a refusal: the input's mapping is evaluated, or one is searched."""
    spec = reading.spec
    if spec is None:
        return f"refused: {without_place(reading.refusal)}"
    try:
        if spec.mapping is not None:
            evaluate(spec)
            return "evaluated"
        map_layer(spec, time_limit=seconds)
        return "mapped"
    except FadiffError as error:
        return f"refused: {without_place(shortened(str(error).splitlines()[0]))}"


def shortened(message: str) -> str:
    """A message with the names of files alone, not of the folders around them."""
    return re.sub(r"[^\s\"]*/([^/\s\"]+\.(?:yaml|yml|jinja2?))", r"\1", message)


# The tables.

def inputs_table(write: Write, title: str, inputs: Sequence[PublicInput], options: argparse.Namespace) -> Counter[str]:
    """One row for each input; returns the counts of `TOTALS`."""
    totals: Counter[str] = Counter()
    write(f"\n## {title}\n\n{heading('input', 'strict', 'lenient', 'run')}")
    for given in inputs:
        reading = read(given)
        result = "" if reading.spec is None else run(given, reading.spec, options.seconds)
        warnings = [shortened(text) for text in reading.spec.warnings] if reading.spec else []
        totals += counts(reading, not result.startswith("no result"))
        write(row(given.name, "refused" if reading.strict else "loads",
                  f"refused: {reading.refusal}" if reading.refusal else "<br>".join(warnings) or "loads", result))
    return totals


def layers_table(write: Write, title: str, inputs: Sequence[PublicInput], options: argparse.Namespace) -> Counter[str]:
    """One row for each folder of layers: how many load, how many map, and the different warnings and refusals."""
    write(f"\n## {title}\n\n{heading('folder', *TOTALS, 'said')}")
    folders: dict[str, list[PublicInput]] = {}
    for given in inputs:
        folders.setdefault(str(Path(given.name).parent), []).append(given)
    mapped: dict[str, bool] = {}
    totals: Counter[str] = Counter()
    for name, members in folders.items():
        readings = [read(given) for given in members]
        said = Counter(without_place(text) for reading in readings
                       for text in ([reading.refusal] if reading.spec is None else reading.spec.warnings))
        own = sum((counts(reading, reading.spec is not None and layer_maps(reading.spec, options.seconds, mapped))
                   for reading in readings), Counter[str]())
        totals += own
        write(row(name, *(own[key] for key in TOTALS),
                  "<br>".join(f"{count} x {text}" for text, count in said.items())))
    return totals


def layer_maps(spec: Spec, seconds: float, mapped: dict[str, bool]) -> bool:
    """Whether the layer is mapped; equal problems are mapped once and remembered in `mapped`."""
    key = str(spec.literal["problem"])
    if key not in mapped:
        try:
            map_layer(spec, time_limit=seconds)
            mapped[key] = True
        except FadiffError:
            mapped[key] = False
    return mapped[key]


def outcomes_table(write: Write, title: str, inputs: Sequence[PublicInput],
                   options: argparse.Namespace) -> Counter[str]:
    """One row for all inputs of a group (the name up to its colon) that end alike."""
    drawn = random.Random(0).sample(inputs, min(options.at_most or len(inputs), len(inputs)))
    rows: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for given in drawn:
        reading = read(given)
        ended = outcome(reading, options.seconds)
        rows[given.name.partition(":")[0], ended] += 1
        totals += counts(reading, not ended.startswith("refused"))
    write(f"\n## {title}\n\n{heading('group', 'inputs', 'here')}")
    for (group, ended), count in sorted(rows.items()):
        write(row(group, count, ended))
    return totals


TOTALS = ("inputs", "load strictly", "load leniently", "run")


def counts(reading: Reading, runs: bool) -> Counter[str]:
    """One input by the names of `TOTALS`."""
    return Counter(dict(zip(TOTALS, (1, int(not reading.strict), int(reading.spec is not None), int(runs)),
                            strict=True)))


def without_place(message: str) -> str:
    """A warning or refusal without file, line and path, and with sizes left open, so that like ones can be counted."""
    return re.sub(r"^\S+:\d+: (\S+: )?", "", message)


def main() -> None:
    """Reads the arguments and writes the tables of the checkouts that are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("exercises", "baseline", "dosa", "cosa", "frontend", "sparseloop", "sparsenaas"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help=f"a checkout of {name}")
    parser.add_argument("--seconds", type=float, default=2.0, help="time limit of each search")
    parser.add_argument("--at-most", type=int, metavar="N", help="runs of Sparseloop and SparseNAAS, drawn at random")
    add_output(parser)
    options = parser.parse_args()
    alexnet = "workloads/alexnet{}/_outputs_input.4.yaml"
    parts: list[tuple[str, Path | None, Callable[[Path], Iterator[PublicInput]], Table]] = [
        ("timeloop-accelergy-exercises: designs", options.exercises, designs, inputs_table),
        ("timeloop-accelergy-exercises: tutorials", options.exercises, tutorials, inputs_table),
        ("baseline-designs", options.baseline, baseline, inputs_table),
        ("DOSA", options.dosa, lambda checkout: architectures(
            checkout, "dataset/hw", f"dataset/{alexnet.format('')}"), inputs_table),
        ("CoSA", options.cosa, lambda checkout: architectures(
            checkout, "src/cosa/configs", f"src/cosa/configs/{alexnet.format('_graph')}"), inputs_table),
        ("timeloop-python", options.frontend, examples, inputs_table),
        ("Sparseloop's artifact", options.sparseloop, sparseloop, outcomes_table),
        ("SparseNAAS", options.sparsenaas, sparsenaas, outcomes_table),
        ("timeloop-accelergy-exercises: layers", options.exercises, layers, layers_table),
        ("baseline-designs: layers", options.baseline, baseline_layers, layers_table),
    ]
    with markdown(options.output) as write:
        totals = [(title, table(write, title, list(inputs(checkout)), options))
                  for title, checkout, inputs, table in parts if checkout]
        write(f"\n## Repositories\n\n{heading('repository', *TOTALS)}")
        for title, own in totals:
            write(row(title, *(f"{own[key]:,}" for key in TOTALS)))


if __name__ == "__main__":
    main()
