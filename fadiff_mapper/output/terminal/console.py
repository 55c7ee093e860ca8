"""The console, the shape of its tables, and the lines that several commands print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fadiff_mapper.base.errors import listed
from fadiff_mapper.base.standard_streams import say, shown
from fadiff_mapper.inputs.spec.spec import WARNING, Spec

if TYPE_CHECKING:
    from fadiff_mapper.calibration.correction import Calibration
    from fadiff_mapper.network.result import NetworkResult
    from fadiff_mapper.search.result import Result
    from fadiff_mapper.timeloop.doctor import InstalledFinding
    from fadiff_mapper.timeloop.verify import Verdict

WIDE = 200  # characters per line of a file or a pipe: wider than every table of the command line


class Screen(Console):
    """A console that prints every text literally, without markup, in the characters of `standard_streams.shown`.

    Standard output, or standard error, is as wide as the terminal, or `WIDE` characters without a terminal.
    """

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = WIDE

    def render_str(self, text: str, **options: Any) -> Text:
        """The text in printable characters; rich passes all strings through here, also of tables."""
        return super().render_str(shown(text, self.encoding), **options)

    def on_broken_pipe(self) -> None:
        """Leaves a broken pipe to the command, which chooses the exit code; rich would choose another."""
        raise   # the error that rich is handling


def table(title: str, *columns: str, text: int = 1, rows: Iterable[Iterable[object]] = (), caption: str = "") -> Table:
    """A table without borders, `title` above and `caption` below.

    The first `text` columns are words, aligned left, the others numbers, aligned right.
    """
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold",
                  caption=caption or None, caption_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < text else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(str, row))
    return table


def short(value: object) -> str:
    """The value of a parameter; real numbers with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def print_sources(what: str, sources: Mapping[str, str]) -> None:
    """Prints one line if all components share a source, else one line per source with its components."""
    names: dict[str, list[str]] = {}
    for component, source in sources.items():
        names.setdefault(source, []).append(component)
    for source, components in names.items():
        Screen().print(f"{what if len(names) == 1 else f'{what} of {listed(components)}'}: {source}")


def print_notes(spec: Spec) -> None:
    """Prints a line for each statement of the input that Timeloop ignores or that has no effect."""
    for note in spec.notes:
        Screen().print(note if note.startswith(WARNING) else f"note: {note}")


def print_findings(findings: list[InstalledFinding]) -> None:
    """Prints a row per program or library: path or version, and the features that need it."""
    Screen().print(table("", "", "found", "enables", text=3, rows=(
        (finding.name, finding.found or "not found", finding.enables) for finding in findings)))


def print_verdict(verdict: Verdict, problem: str = "", file: TextIO | None = None) -> int:
    """Prints one line if all numbers are equal, else a line for each difference; returns the exit code, 0 or 1.

    `problem` is the problem's name if there are several; `file` is standard output by default.
    """
    prefix = f"{problem}: " if problem else ""
    by = f"verified by {verdict.program.name} ({verdict.identity}, {verdict.program})"
    if verdict.equal:
        say(f"{prefix}{by}: {verdict.numbers} numbers equal", file)
        if verdict.limit:
            say(f"{prefix}{verdict.limit}", file)
        return 0
    say(f"{prefix}not {by}: {len(verdict.differences)} differences in {verdict.numbers} numbers", file)
    for line in verdict.differences:
        say(f"  {line}", file)
    return 1


def print_plan_verdicts(result: NetworkResult, program: Path) -> bool:
    """Runs the real `timeloop-model` (see `timeloop.verify.real_model`) on every layer and every tile of a plan.

    Prints a verdict for each; returns whether a number differs.
    """
    from fadiff_mapper.timeloop.verify import verify_plan  # most commands verify nothing
    verdicts = [print_verdict(verdict, name) for name, verdict in verify_plan(result, program)]
    return any(verdicts)


def print_calibration(calibration: Calibration, written_to: str) -> None:
    """Prints the coefficients, the verdicts against the exact model, and whether the calibration is useful."""
    from fadiff_mapper.calibration.features import MEANING, NAMES  # of one command
    out = Screen()
    out.print(table("", "feature", "cycles", "per", rows=(
        (name, f"{value:.4g}", MEANING[name]) for name, value in zip(NAMES, calibration.coefficients, strict=True))))
    out.print(f"program {calibration.program}, parts of a tile joined by a norm of {calibration.norm:.3g}")
    judged = (("layers not learned from", calibration.unseen), ("searched points", calibration.searched))
    out.print(table("", "judged on", "points", "rank correlation", "exact model", "mean error", "exact model", rows=(
        (name, verdict.points, f"{verdict.spearman:.4f}", f"{verdict.exact_spearman:.4f}", f"{verdict.error:.1%}",
         f"{verdict.exact_error:.1%}") for name, verdict in judged if verdict)))
    if calibration.searched is None:
        out.print("no row is marked part=searched, so points that a search proposes were not judged")
    doubt = "" if calibration.useful else "this calibration does not beat the exact model: refused without --force; "
    out.print(f"{doubt}written to {written_to}")


def print_corrected(results: Sequence[Result], names: Sequence[str]) -> None:
    """Prints cycles and EDP of mapped layers, as a calibration corrects them, beside Timeloop's."""
    rows = [(name, result.stats.cycles, f"{cycles.cycles:.0f}", f"{result.stats.edp:.6g}",
             f"{result.stats.energy_pj * cycles.cycles:.6g}",
             f"{cycles.exact_choice_energy_pj * cycles.exact_choice_cycles:.6g}")
            for name, result in zip(names, results, strict=True) if (cycles := result.corrected)]
    Screen().print(table("corrected to measured hardware", "layer", "cycles", "corrected", "EDP pJ*cycles",
                         "corrected", "corrected, exact model's choice", rows=rows))
