"""Asks the real `timeloop-model` about random mappings and writes its answers down for the tests.

    python -m validation.record --version COMMIT [--out FILE] [--cases 30] [--seed 1] [--no-reuse | --residuals]
                                [--model timeloop-model]

One JSON object per line. `kind` is "tool" (the program that answered), "arch" (`key`: its top-level key, `native`,
`ert`), "problem", or "case": a mapping as directives, with `status` "ok", the `features` it exercises and `result`
(see `read_answer.py`), or "rejected" and `error`. Every number is Timeloop's own. With `--no-reuse` the mappings switch
reuse off for random data spaces, with `--residuals` they have residual factors; such cases go to files of their own
unless `--out` is given.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.native.mapping import literal_mapping
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.model.loop_nest import unpack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.timeloop.run_model import ModelAnswer, run_text

from .features import features
from .problems import conv_letters, other_letters
from .random_mappings import FAULTS, abbreviated, constrained_nests, forgetful, random_mapping
from .residual_mappings import KINDS, residual_mapping

OWN_DESIGNS = Path(__file__).parent / "designs"
RECORDED = Path(__file__).parent.parent / "tests" / "data" / "timeloop_cases.jsonl.gz"
RECORDED_NO_REUSE = RECORDED.with_name("timeloop_no_reuse.jsonl.gz")
RECORDED_RESIDUALS = RECORDED.with_name("timeloop_residuals.jsonl.gz")


@dataclass(frozen=True)
class Design:
    """An architecture in the native dialect, and everything that is asked about it.

    Attributes:
        name: Name of the design.
        key: Top-level key of the architecture, which differs between Timeloop's formats.
        native: The architecture's tree.
        ert: Energies, or None for Timeloop's built-in values.
        problems: Problem id -> native problem.
        constraints: The sections that constrain the design's mappings; empty where there are none.
    """

    name: str
    key: str
    native: dict[str, Any]
    ert: dict[str, Any] | None
    problems: dict[str, dict[str, Any]]
    constraints: dict[str, Any]

    def document(self, problem: str) -> dict[str, Any]:
        """The input of a problem without a mapping and without constraints.

        `timeloop-model` would check the mapping against constraints, and random mappings break them on purpose.
        """
        return {self.key: self.native, "problem": self.problems[problem]} | ({"ERT": self.ert} if self.ert else {})

    def spec(self, problem: str) -> Spec:
        """The input of a problem with its constraints, as this package reads it."""
        return load(self.document(problem) | self.constraints)


def designs() -> list[Design]:
    """The bundled designs, whose constraints name dimensions of convolutions, and the small ones in `designs/`."""
    chosen, conv = [], conv_letters()
    for name in bundled_files.designs():
        spec = load(str(bundled_files.find(f"arch/{name}")), str(bundled_files.find("problems/conv")))
        ert = yaml.safe_load(bundled_files.find(f"tables/{name}.ERT").read_text())["ERT"]
        native, constraints = json.loads(json.dumps([spec.literal["architecture"], spec.constraints.native]))
        chosen.append(Design(name, "architecture", native, ert, conv, constraints))
    for path in sorted(OWN_DESIGNS.glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        ert = document.pop("ERT", None)
        (key, native), = document.items()
        problems = conv if "bandwidth_consumption" in path.read_text() else conv | other_letters()
        chosen.append(Design(path.stem, key, native, ert, problems, {}))
    return chosen


def questions(design: Design, count: int, seed: int, no_reuse: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The mappings that Timeloop is asked about: every eighth with a fault, every other one within the constraints.

    Args:
        design: The design.
        count: How many mappings.
        seed: Of the draws; designs draw independently of each other.
        no_reuse: Whether to switch reuse off for random data spaces.

    Yields:
        (problem id, mapping as directives, abbreviated now and then).
    """
    rng = random.Random(f"{seed}/{design.name}")
    names = rng.sample(sorted(design.problems), len(design.problems))
    for number in range(count):
        name = names[number % len(names)]
        spec = design.spec(name)
        fault = rng.choice(FAULTS) if number % 8 == 4 else ""
        mapping = _within_constraints(spec, number) if design.constraints and number % 2 else None
        mapping = mapping or random_mapping(spec.arch, spec.problem, rng, fault)
        if no_reuse:
            mapping = forgetful(mapping, spec.arch, spec.problem.dataspace_names(), rng)
        directives = literal_mapping(mapping, spec.arch, spec.problem)
        yield name, abbreviated(directives, spec.problem, rng) if rng.random() < 0.3 else directives


def residual_questions(design: Design, count: int, seed: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Mappings with residual factors, of temporal loops, of spatial ones and of both in turn.

    Args:
        design: The design.
        count: How many mappings.
        seed: Of the draws; designs draw independently of each other.

    Yields:
        (problem id, mapping as directives).
    """
    rng = random.Random(f"{seed}/{design.name}")
    names = rng.sample(sorted(design.problems), len(design.problems))
    for number in range(count):
        name = names[number % len(names)]
        spec = design.spec(name)
        mapping = residual_mapping(spec.arch, spec.problem, rng, KINDS[number % len(KINDS)])
        yield name, literal_mapping(mapping, spec.arch, spec.problem)


def _within_constraints(spec: Spec, seed: int) -> Mapping | None:
    """A legal mapping within the constraints, None where none was drawn."""
    nests = constrained_nests(prepare_layer(spec.arch, spec.problem, spec.tables), spec, 1, seed)
    return unpack(nests, 0, spec.problem) if nests.batch else None


def ask(design: Design, problem: str, mapping: list[dict[str, Any]], program: str) -> ModelAnswer:
    """Timeloop's answer to one mapping, given in a folder of its own."""
    shape = design.problems[problem]["shape"]
    spaces = [space["name"] for space in shape.get("data_spaces", shape.get("data-spaces"))]
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        return run_text(dump(design.document(problem) | {"mapping": mapping}), spaces, Path(folder), (program,))


def record(count: int, seed: int, program: str, version: str, *, no_reuse: bool = False,
           residuals: bool = False) -> Iterator[dict[str, Any]]:
    """All lines of the recording, `count` cases for every design; progress goes to standard error."""
    chosen = designs()
    yield {"kind": "tool", "name": "timeloop-model", "version": version, "seed": seed}
    for design in chosen:
        yield {"kind": "arch", "id": design.name, "key": design.key, "native": design.native, "ert": design.ert}
    for name, problem in (conv_letters() | other_letters()).items():
        yield {"kind": "problem", "id": name, "problem": problem}
    for design in chosen:
        asked = residual_questions(design, count, seed) if residuals else questions(design, count, seed, no_reuse)
        for number, (name, mapping) in enumerate(asked):
            answer = ask(design, name, mapping, program)
            case = {"kind": "case", "id": f"{design.name}-{number:03d}", "arch": design.name, "problem": name,
                    "mapping": mapping}
            if answer.result is None:
                yield case | {"status": "rejected", "error": answer.error}
            else:
                yield case | {"status": "ok", "features": features(answer.result), "result": answer.result}
        print(f"{design.name}: {count} cases", file=sys.stderr)


def write(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    """Writes compressed lines of JSON, the same bytes for the same lines."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main() -> None:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True, help="the commit that the program was built from")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", type=int, default=30, help="cases for every design")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-reuse", action="store_true", help="switch reuse off for random data spaces")
    parser.add_argument("--residuals", action="store_true", help="mappings with residual factors")
    parser.add_argument("--model", default="timeloop-model", help="the program")
    given = parser.parse_args()
    out = given.out or (
        RECORDED_RESIDUALS if given.residuals else RECORDED_NO_REUSE if given.no_reuse else RECORDED)
    write(out, record(given.cases, given.seed, given.model, given.version, no_reuse=given.no_reuse,
                      residuals=given.residuals))


if __name__ == "__main__":
    main()
