"""What a report is about, besides the measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..models import Batch
from ..summary import Summary
from ..tables import Price
from ..tools import Tool


@dataclass(frozen=True)
class Context:
    """`command` repeats the run; `cleared` are variables that would have changed results; `failures` the questions
    that got no answer; `fused` the comparison of fused stacks, as (title, text of an SVG picture)."""

    tool: Tool
    command: str
    versions: dict[str, str]
    cleared: dict[str, str]
    summary: Summary
    batches: Sequence[Batch]
    prices: Sequence[Price]
    failures: Sequence[str]

    @property
    def agrees(self) -> bool:
        """Whether the exact model gave every number of every answer, and every question got one."""
        return not self.failures and not self.summary.check.disagreements
