"""What is installed."""

from __future__ import annotations

from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.timeloop.doctor import InstalledFinding


def print_findings(findings: list[InstalledFinding]) -> None:
    """What `doctor` found."""
    rows = table("", "", "found", "enables", text=3)
    for finding in findings:
        rows.add_row(finding.name, finding.found or "not found", finding.enables)
    console().print(rows)
