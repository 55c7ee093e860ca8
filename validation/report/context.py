"""The subject of a report: measures, the tool behind them, and how to repeat the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..fused import Fused
from ..models import AnsweredTask
from ..summary import Summary
from ..tables import Price
from ..tools import Tool


@dataclass(frozen=True)
class Context:
    """Everything that a report shows.

    Attributes:
        tool: Who answered.
        command: The command line that repeats the run.
        versions: Library -> version.
        cleared: Environment variables that would have changed Timeloop's results and were cleared for it.
        summary: The measures.
        batches: Measured and predicted numbers of all accepted mappings.
        prices: Energies of the designs from all sources.
        failures: A line for each question that got no answer.
        fused: The fused-layer models beside other tools; None where they were left out.
    """

    tool: Tool
    command: str
    versions: dict[str, str]
    cleared: dict[str, str]
    summary: Summary
    batches: Sequence[AnsweredTask]
    prices: Sequence[Price]
    failures: Sequence[str]
    fused: Fused | None = None

    @property
    def agrees(self) -> bool:
        """Whether the exact models gave every number of every answer, and every question got one."""
        fused = self.fused is None or not self.fused.looptree.differences
        return fused and not self.failures and not self.summary.check.disagreements
