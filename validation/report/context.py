"""What a report is about, besides the measures."""

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
    """`command` repeats the run; `cleared` are variables that would have changed results; `failures` the questions
    that got no answer; `fused` the fused-layer models beside other tools, or None where that was not asked for."""

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
