"""Public Timeloop inputs that load and map: every design, layer and tutorial of checkouts given by path.

    python benchmarks/public_files.py --exercises DIR --baseline DIR --dosa DIR --cosa DIR --frontend DIR [-o FILE]

Each input is read strictly and leniently, and then mapped (or, where it has a mapping, evaluated) as the launchers do
it: leniently, with the input's own sections, for `--seconds` at most. Layers are read one by one on a design, and
mapped once for each distinct problem. The table says how a strict reading ends, each warning of a lenient one, and the
result of the run or the reason of a refusal. `--seconds 0` only reads.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import map_layer
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.dropin.calls import call_mapper, call_model
from fadiff_mapper.inputs.load import load, read_document
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.yaml.located import Map

LAYER_DESIGN = "eyeriss_like"
"""The design on which layers of the exercises and of the baseline designs are read."""
SMALL_LAYER = Path(__file__).with_name("small_layer.yaml")
"""The layer on which the examples of the front end are read, which have none of their own."""
PRODUCTS, PRODUCT_DESIGN = "MM", "sparse_tensor_core_like"
"""The folder of the exercises' matrix products A B = Z, and the design on which they are read."""
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


def without_place(message: str) -> str:
    """A warning or refusal without file, line and path, and with sizes left open, so that like ones can be counted."""
    return re.sub(r"^\S+:\d+: (\S+: )?", "", message)


def main() -> None:
    """Reads the arguments and writes the tables of the checkouts that are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("exercises", "baseline", "dosa", "cosa", "frontend"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help=f"a checkout of {name}")
    parser.add_argument("--seconds", type=float, default=2.0, help="time limit of each search (0: only read)")
    parser.add_argument("--no-layers", action="store_true", help="leave the layer files out")
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
        if options.exercises and not options.no_layers:
            layers_table(write, "timeloop-accelergy-exercises: layers", list(layers(options.exercises)), options)
        if options.baseline and not options.no_layers:
            layers_table(write, "baseline-designs: layers", list(baseline_layers(options.baseline)), options)


if __name__ == "__main__":
    main()
