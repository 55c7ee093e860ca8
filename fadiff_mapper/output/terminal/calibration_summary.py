"""A calibration, and cycles corrected by one, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff_mapper.calibration.features import MEANING, NAMES
from fadiff_mapper.output.terminal.console import console, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fadiff_mapper.calibration.correction import Calibration
    from fadiff_mapper.search.result import Result


def print_calibration(calibration: Calibration, written_to: str) -> None:
    """Prints the coefficients, the verdicts beside the exact model, and whether the calibration is of use.

    Args:
        calibration: The calibration.
        written_to: Its file.
    """
    out = console()
    rows = table("", "feature", "cycles", "per", text=1)
    for name, value in zip(NAMES, calibration.coefficients, strict=True):
        rows.add_row(name, f"{value:.4g}", MEANING[name])
    out.print(rows)
    out.print(f"program {calibration.program}, parts of a tile joined by a norm of {calibration.norm:.3g}")
    verdicts = table("", "judged on", "points", "rank correlation", "exact model", "mean error", "exact model", text=1)
    for name, verdict in (("layers not learned from", calibration.unseen), ("searched points", calibration.searched)):
        if verdict:
            verdicts.add_row(name, str(verdict.points), f"{verdict.spearman:.4f}", f"{verdict.exact_spearman:.4f}",
                             f"{verdict.error:.1%}", f"{verdict.exact_error:.1%}")
    out.print(verdicts)
    if calibration.searched is None:
        out.print("no row is marked part=searched, so points that a search proposes were not judged")
    doubt = "" if calibration.useful else "this calibration does not beat the exact model: refused without --force; "
    out.print(f"{doubt}written to {written_to}")


def print_corrected(results: Sequence[Result], names: Sequence[str]) -> None:
    """Prints corrected cycles and EDP beside Timeloop's, where a calibration was given.

    Args:
        results: Mapped layers.
        names: A name per layer.
    """
    corrected = [(name, result, result.corrected) for name, result in zip(names, results, strict=True)
                 if result.corrected]
    if not corrected:
        return
    rows = table("corrected to measured hardware", "layer", "cycles", "corrected", "EDP pJ*cycles", "corrected",
                 "corrected, exact model's choice", text=1)
    for name, result, cycles in corrected:
        rows.add_row(name, str(result.stats.cycles), f"{cycles.cycles:.0f}", f"{result.stats.edp:.6g}",
                     f"{result.stats.energy_pj * cycles.cycles:.6g}",
                     f"{cycles.exact_choice_energy_pj * cycles.exact_choice_cycles:.6g}")
    console().print(rows)
