"""Public Timeloop inputs that load and map: every design, layer and tutorial of checkouts given by path.

    python benchmarks/public_files.py --exercises DIR --baseline DIR --dosa DIR --cosa DIR --frontend DIR [-o FILE]
    python benchmarks/public_files.py --sparseloop DIR --sparsenaas DIR --cimloop DIR --timeloop [-o FILE]

Each input is read strictly and leniently, and then mapped (or, where it has a mapping, evaluated) as the launchers do
it: leniently, with the input's own sections, for `--seconds` at most. Layers are read one by one on a design, and
mapped once for each distinct problem. The table says how a strict reading ends, each warning of a lenient one, and the
result of the run or the reason of a refusal. `--seconds 0` only reads.

Sparseloop's artifact and SparseNAAS come as hundreds of runs, so one row stands for all that end alike. With
`--timeloop` the real `timeloop-model` on the PATH gets the same files (and our energies, where they have none) and its
numbers are compared. Where a run has no mapping, it evaluates the one found here.

CiMLoop's macros are made by its own Python code from the checkout, which is imported, with Timeloop's front end
(`pytimeloop`), which must be installed. What it makes is given to `call_mapper`, and with `--timeloop` to the front
end's function of this name, so that the real `timeloop-mapper` searches the same.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from fadiff_mapper.inputs.native.tables import art_tree, ert_tree
from fadiff_mapper.inputs.spec.mapping import Mapping as LoopMapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.timeloop.calls import call_mapper, call_model
from fadiff_mapper.timeloop.find_programs import MAPPER
from fadiff_mapper.timeloop.run_model import SHOW_ALL, read_answer, run_text
from fadiff_mapper.timeloop.verify import MODEL, TIMEOUT, compared, differences, real_model, verify

LAYER_DESIGN = "eyeriss_like"
"""The design on which layers of the exercises and of the baseline designs are read."""
SMALL_LAYER = Path(__file__).with_name("small_layer.yaml")
"""The layer on which the examples of the front end are read, which have none of their own."""
PRODUCTS, PRODUCT_DESIGN = "MM", "sparse_tensor_core_like"
"""The folder of the exercises' matrix products A B = Z, and the design on which they are read."""
ALL_DIGITS = {**SHOW_ALL, "TIMELOOP_OUTPUT_STAT_SCIENTIFIC": "0"}
"""Variables with which Timeloop prints everything, with two decimals where CiMLoop asks for three digits."""
ISPASS, INTERFACE = "01_accelergy_timeloop_2020_ispass", "02_interface_and_design_space_exploration_2024"
"""Folders of the tutorials that have input for Timeloop's mapper or model; the others have notebooks only."""


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


@dataclass(frozen=True)
class Answer:
    """What this package says of an input.

    Attributes:
        outcome: "evaluated", "mapped", or the reason of a refusal.
        spec: The lenient reading; None where it is refused.
        mapping: The mapping that was evaluated; None where there is none.
        stats: Its numbers.
    """

    outcome: str
    spec: Spec | None = None
    mapping: LoopMapping | None = None
    stats: Stats | None = None


def answer(given: PublicInput, seconds: float) -> Answer:
    """Reads an input leniently, and evaluates its mapping or one that is found."""
    reading = read(given)
    spec = reading.spec
    if spec is None:
        return Answer(f"refused: {without_place(reading.refusal)}")
    try:
        if spec.mapping is not None:
            return Answer("evaluated", spec, spec.mapping, evaluate(spec))
        found = map_layer(spec, time_limit=seconds)
        return Answer("mapped", spec, found.mapping, found.stats)
    except FadiffError as error:
        return Answer(f"refused: {without_place(shortened(str(error).splitlines()[0]))}", spec)


def timeloops_answer(given: PublicInput, ours: Answer) -> str:
    """Whether the real `timeloop-model` gives the same numbers for an input as its author wrote it.

    An input without a mapping is handed over with the one found here, in the form in which `map --verify` does it.
    """
    if ours.spec is not None and ours.spec.mapping is None and ours.mapping is not None and ours.stats is not None:
        verdict = verify(ours.spec, ours.mapping, ours.stats, real_model())
        return compared_in_words(verdict.differences)
    text = "\n".join(file.read_text(encoding="utf-8") for file in given.files)
    for kind, table in (("ERT", ert_tree), ("ART", art_tree)):
        if ours.spec is not None and not re.search(rf"^{kind}:", text, re.MULTILINE):
            text += "\n" + dump({kind: table(ours.spec.arch, ours.spec.tables)})
    names = ours.spec.problem.dataspace_names() if ours.spec is not None else ()
    with TemporaryDirectory() as folder:
        try:
            real = run_text(text, names, Path(folder), (str(real_model()),), timeout=TIMEOUT)
        except FadiffError as error:
            return f"no answer: {error}"
    if real.result is None:
        return f"rejected: {' '.join(real.error.split())}"
    return "accepted" if ours.stats is None else compared_in_words(tuple(differences(real.result,
                                                                                     compared(ours.stats))))


def compared_in_words(found: Sequence[str]) -> str:
    """The outcome of a comparison, with the place of the first difference but not its numbers."""
    return f"{len(found)} numbers differ, first {found[0].partition(':')[0]}" if found else "every number equal"


def shortened(message: str) -> str:
    """A message with the names of files alone, not of the folders around them."""
    return re.sub(r"[^\s\"]*/([^/\s\"]+\.(?:yaml|yml|jinja2?))", r"\1", message)


# The tables.

def inputs_table(write: Write, title: str, inputs: Sequence[PublicInput], options: argparse.Namespace) -> None:
    """One row for each input."""
    write(f"\n## {title}\n\n{heading('input', 'strict', 'lenient', 'run')}")
    for given in inputs:
        reading = read(given)
        result = "" if reading.spec is None or not options.seconds else run(given, reading.spec, options.seconds)
        warnings = [shortened(text) for text in reading.spec.warnings] if reading.spec else []
        write(row(given.name, "refused" if reading.strict else "loads",
                  f"refused: {reading.refusal}" if reading.refusal else "<br>".join(warnings) or "loads", result))


def layers_table(write: Write, title: str, inputs: Sequence[PublicInput], options: argparse.Namespace) -> None:
    """One row for each folder of layers: how many load, how many map, and the different warnings and refusals."""
    write(f"\n## {title}\n\n{heading('folder', 'files', 'load strictly', 'load leniently', 'mapped', 'said')}")
    folders: dict[str, list[PublicInput]] = {}
    for given in inputs:
        folders.setdefault(str(Path(given.name).parent), []).append(given)
    mapped: dict[str, bool] = {}
    totals: Counter[str] = Counter()
    for name, members in folders.items():
        readings = [read(given) for given in members]
        said = Counter(without_place(text) for reading in readings
                       for text in ([reading.refusal] if reading.spec is None else reading.spec.warnings))
        loaded = [reading.spec for reading in readings if reading.spec is not None]
        done = sum(layer_maps(spec, options.seconds, mapped) for spec in loaded) if options.seconds else 0
        counts = Counter(files=len(members), strict=sum(not reading.strict for reading in readings),
                         lenient=len(loaded), mapped=done)
        totals += counts
        write(row(name, *(counts[key] for key in ("files", "strict", "lenient", "mapped")),
                  "<br>".join(f"{count} x {text}" for text, count in said.items())))
    write(row("all", *(totals[key] for key in ("files", "strict", "lenient", "mapped")),
              f"{len(mapped)} distinct problems"))


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


def outcomes_table(write: Write, title: str, inputs: Sequence[PublicInput], options: argparse.Namespace) -> None:
    """One row for all inputs of a group (the name up to its colon) that end alike."""
    drawn = random.Random(0).sample(inputs, min(options.at_most or len(inputs), len(inputs)))
    rows: Counter[tuple[str, str, str]] = Counter()
    for given in drawn:
        ours = answer(given, options.seconds)
        real = timeloops_answer(given, ours) if options.timeloop else ""
        rows[given.name.partition(":")[0], ours.outcome, real] += 1
    write(f"\n## {title}\n\n{len(drawn)} of {len(inputs)} inputs.\n\n{heading('group', 'inputs', 'here', MODEL)}")
    for (group, outcome, real), count in sorted(rows.items()):
        write(row(group, count, outcome, real))


def macros_table(write: Write, title: str, checkout: Path, options: argparse.Namespace) -> None:
    """CiMLoop's macros, as its `quick_run` makes them: read as files, and given to `call_mapper` as the front end's."""
    import pytimeloop.timeloopfe.v4 as front_end
    sys.path.append(str(checkout / "workspace/scripts"))
    from utils import get_spec
    write(f"\n## {title}\n\n{heading('macro', 'read as files', 'call_mapper', MODEL, 'the real timeloop-mapper')}")
    models = checkout / "workspace/models"
    for folder in sorted(path.parent for path in (models / "arch/1_macro").glob("*/arch.yaml")):
        name = folder.name
        given = PublicInput(name, (models / "top.yaml.jinja2",),
                            {"macro": name, "iso": name, "system": "ws_dummy_buffer_one_macro"})
        reading = read(given)
        cells = [f"refused: {without_place(reading.refusal)}" if reading.refusal else "loads"]
        with TemporaryDirectory() as ours, TemporaryDirectory() as real, open(os.devnull, "w") as silent:
            try:
                specification = get_spec(name, max_utilization=True)
                call_mapper(specification, ours, time_limit=options.seconds, log_to=silent)
                spec = load(Path(ours, "fadiff.input.yaml"), strict=False)
                stats = evaluate(spec)
                cells.append(f"{stats.cycles} cycles, {stats.energy_pj:.4g} pJ")
                if options.timeloop and spec.mapping is not None:
                    cells.append(compared_in_words(verify(spec, spec.mapping, stats, real_model()).differences))
                    front_end.call_mapper(specification, real, environment=ALL_DIGITS, log_to=silent)
                    same = Path(ours, f"{MAPPER}.map.txt").read_text() == Path(real, f"{MAPPER}.map.txt").read_text()
                    cells.append(beside_the_mapper(spec, stats, Path(real), same))
            except (FadiffError, KeyError, RuntimeError) as error:
                cells.append(f"no result: {type(error).__name__}: {str(error).splitlines()[0]}")
        write(row(name, *cells, *[""] * (4 - len(cells))))


def beside_the_mapper(spec: Spec, ours: Stats, folder: Path, same: bool) -> str:
    """The numbers that the real `timeloop-mapper` left in a folder, and whether ours for the `same` mapping are equal.

    For another mapping: the energy-delay product of ours over the real one's.
    """
    for part in ("map+stats.xml", "stats.txt"):
        (folder / f"{MAPPER}.{part}").rename(folder / f"{MODEL}.{part}")
    real = read_answer(folder, spec.problem.dataspace_names())
    edp = ours.cycles * ours.energy_pj / (real["cycles"] * real["energy_pj"])
    return (f"{real['cycles']} cycles, {real['energy_pj']:.4g} pJ: "
            + (f"same loops, {compared_in_words(tuple(differences(real, compared(ours))))}" if same
               else f"EDP here {edp:.4g} of it"))


def without_place(message: str) -> str:
    """A warning or refusal without file, line and path, and with sizes left open, so that like ones can be counted."""
    return re.sub(r"^\S+:\d+: (\S+: )?", "", message)


def main() -> None:
    """Reads the arguments and writes the tables of the checkouts that are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("exercises", "baseline", "dosa", "cosa", "frontend", "sparseloop", "sparsenaas", "cimloop"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help=f"a checkout of {name}")
    parser.add_argument("--seconds", type=float, default=2.0, help="time limit of each search (0: only read)")
    parser.add_argument("--no-layers", action="store_true", help="leave the layer files out")
    parser.add_argument("--timeloop", action="store_true", help="compare with the real timeloop-model on the PATH")
    parser.add_argument("--at-most", type=int, metavar="N", help="runs of Sparseloop and SparseNAAS, drawn at random")
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        if options.exercises:
            inputs_table(write, "timeloop-accelergy-exercises: designs", list(designs(options.exercises)), options)
            inputs_table(write, "timeloop-accelergy-exercises: tutorials", list(tutorials(options.exercises)), options)
        if options.baseline:
            inputs_table(write, "baseline-designs", list(baseline(options.baseline)), options)
        for title, checkout, folder, workloads in (
                ("DOSA", options.dosa, "dataset/hw", "dataset/workloads/alexnet"),
                ("CoSA", options.cosa, "src/cosa/configs", "src/cosa/configs/workloads/alexnet_graph")):
            if checkout:
                inputs_table(write, title, list(architectures(
                    checkout, folder, f"{workloads}/_outputs_input.4.yaml")), options)
        if options.frontend:
            inputs_table(write, "timeloop-python", list(examples(options.frontend)), options)
        for title, checkout, runs in (("Sparseloop's artifact", options.sparseloop, sparseloop),
                                      ("SparseNAAS", options.sparsenaas, sparsenaas)):
            if checkout:
                outcomes_table(write, title, list(runs(checkout)), options)
        if options.cimloop:
            macros_table(write, "CiMLoop", options.cimloop, options)
        if options.exercises and not options.no_layers:
            layers_table(write, "timeloop-accelergy-exercises: layers", list(layers(options.exercises)), options)
        if options.baseline and not options.no_layers:
            layers_table(write, "baseline-designs: layers", list(baseline_layers(options.baseline)), options)


if __name__ == "__main__":
    main()
