"""Every recorded answer of Timeloop, LoopTree and DeFiNES beside this program's: how many numbers, how many differ.

    python benchmarks/recorded_answers.py [-o FILE]

No other program is needed: the answers were written down by `fadiff-validate record` and `python -m
validation.record`, with the version of the tool, and come with the package or with its tests. Counts must be equal,
energies to 1e-9, and a mapping that Timeloop rejects must be rejected. The models beside the exact one, and the stacks
beside DeFiNES, are those of `fadiff-validate`.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fadiff_validation import recording
from fadiff_validation.corners.comparing import mistakes
from fadiff_validation.fused import measure_fused
from fadiff_validation.models import batches, check
from fadiff_validation.report import tables
from fadiff_validation.report.fused import curve_table, looptree_table
from fadiff_validation.summary import summarize
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import evaluate, load
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.timeloop.verify import compared, differences, numbers

TESTS = Path(__file__).parents[1] / "tests"
CORNERS = TESTS / "recorded" / "corners"

QUESTIONS = {
    "eight operators on the bundled designs, random and best mappings": recording.BUNDLED,
    "corners": CORNERS / "corners.jsonl.gz",
    "corners with networks on chip of their own": CORNERS / "networks.jsonl.gz",
    "corners with kinds of reuse switched off": CORNERS / "switches.jsonl.gz",
}
"""Recordings of `fadiff-validate record`."""

CASES = {
    "random mappings of 21 problems on 13 designs": TESTS / "data" / "timeloop_cases.jsonl.gz",
    "the same, tensors without reuse": TESTS / "data" / "timeloop_no_reuse.jsonl.gz",
    "the same, residual factors": TESTS / "data" / "timeloop_residuals.jsonl.gz",
    "sparse designs": TESTS / "data" / "timeloop_sparse.jsonl.gz",
}
"""Recordings of `python -m validation.record`."""

FRONT_END = TESTS / "recorded" / "v04" / "front_end.jsonl.gz"
"""Answers to what Timeloop's Python front end makes of v0.4 inputs."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Compared:
    """An answer beside ours.

    Attributes:
        numbers: Numbers of the answer; 0 where Timeloop rejects the mapping.
        different: A line for each number, or for the verdict, that is not ours.
    """

    numbers: int
    different: Sequence[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_output(parser)
    options = parser.parse_args()
    sets = {**{name: list(questions(path)) for name, path in QUESTIONS.items()},
            **{name: list(cases(path)) for name, path in CASES.items()},
            "v0.4 inputs through Timeloop's front end": list(front_end())}
    answers = recording.read(recording.BUNDLED).answers
    summary, fused = summarize(batches(answers), check(answers)), measure_fused()
    with markdown(options.output) as write:
        write("## Recorded answers\n")
        write(heading("mappings", "asked about", "rejected", "numbers", "different"))
        for name, found in {**sets, "all": [one for own in sets.values() for one in own]}.items():
            write(row(name, f"{len(found):,}", f"{sum(not one.numbers for one in found):,}",
                      f"{sum(one.numbers for one in found):,}", f"{sum(len(one.different) for one in found):,}"))
        for table in (tables.overall(summary), looptree_table(fused), curve_table(fused)):
            show(table, write)


def show(table: tables.Table, write: Write) -> None:
    """Writes a table of a report with its title and its note."""
    write(f"\n## {table.title}\n\n{heading(*table.head)}")
    for cells in table.rows:
        write(row(*cells))
    if table.note:
        write(f"\n{table.note}")


def questions(path: Path) -> Iterator[Compared]:
    """The answers of a recording of `fadiff-validate record`."""
    for item in recording.read(path).answers:
        if item.answer is not None:
            yield Compared(numbers(item.answer.result or {}), mistakes(item.question, item.answer))


def cases(path: Path) -> Iterator[Compared]:
    """The answers of a recording of `python -m validation.record`."""
    lines: dict[str, dict[str, Json]] = {}
    for line in json_lines(path):
        lines.setdefault(line["kind"], {})[line.get("id", "")] = line
    for case in lines["case"].values():
        arch, problem = lines["arch"][case["arch"]], lines["problem"][case["problem"]]["problem"]
        document = {arch["key"]: arch["native"], "mapping": case["mapping"],
                    "problem": {**problem, "instance": {**problem["instance"], **(case.get("densities") or {})}}}
        document |= {key: table for key, table in (("ERT", arch["ert"]),
                                                   ("sparse_optimizations", case.get("sparse_optimizations"))) if table}
        yield answered(document, case.get("result"))


def answered(document: Json, result: Json | None) -> Compared:
    """An answer beside our evaluation of the same input."""
    try:
        ours = compared(evaluate(load(document)))
    except FadiffError as error:
        return Compared(numbers(result or {}), [] if result is None else [f"rejected: {error}"])
    return Compared(0, ["accepted"]) if result is None else Compared(numbers(result), list(differences(result, ours)))


def front_end() -> Iterator[Compared]:
    """The answers to v0.4 inputs."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "input.yaml")
        for case in json_lines(FRONT_END):
            file.write_text(case["text"], encoding="utf-8")
            ours = compared(evaluate(load(file, energy="built-in", strict=False)))
            yield Compared(numbers(case["result"]), list(differences(case["result"], ours)))


def json_lines(path: Path) -> Iterator[Json]:
    """The lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


if __name__ == "__main__":
    main()
