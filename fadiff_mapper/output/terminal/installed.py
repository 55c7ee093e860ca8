"""The findings of `fadiff-mapper doctor`: programs and libraries on this machine."""

from __future__ import annotations

from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.timeloop.doctor import InstalledFinding


def print_findings(findings: list[InstalledFinding]) -> None:
    """Prints a row per program or library: where or which version, and what it enables."""
    rows = table("", "", "found", "enables", text=3)
    for finding in findings:
        rows.add_row(finding.name, finding.found or "not found", finding.enables)
    console().print(rows)
