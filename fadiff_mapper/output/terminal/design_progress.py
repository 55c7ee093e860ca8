"""A search of designs as it runs: designs mapped, their rate, the time that is left, the best so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn

from fadiff_mapper.output.terminal.progress_line import progress_line

if TYPE_CHECKING:
    from fadiff_mapper.design.design_run import DesignProgress


@contextmanager
def progress(metric: str, quiet: bool) -> Iterator[Callable[[DesignProgress], None]]:
    """A line on the terminal that follows the search; silent where there is no terminal.

    Args:
        metric: The metric whose best value is shown.
        quiet: Whether to stay silent in any case.

    Yields:
        A function to call after every design.
    """
    with progress_line("searching designs", quiet, BarColumn(bar_width=24)) as update:
        yield lambda state: update(description=described(state, metric), completed=state.evaluations,
                                   total=state.wanted if math.isfinite(state.wanted) else None)


def described(state: DesignProgress, metric: str) -> str:
    """How far a search is, in one line."""
    wanted = f" of {state.wanted:,.0f}" if math.isfinite(state.wanted) else ""
    left = f", {_clock(state.left_s)} left" if math.isfinite(state.left_s) else ""
    best = f"; best {metric} {state.best.of(metric):.6g}" if state.best else ""
    others = f", {state.pruned:,} left out, {state.refused:,} refused" if state.pruned or state.refused else ""
    return f"{state.evaluations:,}{wanted} designs{others}, {state.rate:.3g}/s{left}{best}"


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds, as on a clock."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
