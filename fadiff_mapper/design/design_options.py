"""Options of a search of designs: its method, its effort, and who carries the work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.design.proposers.methods import BLACK_BOX, UNTAUGHT
from fadiff_mapper.search.options import MOST_THREADS

METHODS = ("bounds", "gradient", *BLACK_BOX)

EVALUATIONS = 100
"""Designs that are mapped where neither a number nor a time limit is given. A plain default, not measured."""

ROUND = {"taught": 8, "untaught": 64}
"""Designs proposed at a time. Methods that learn go on with what a round has shown, so theirs are short; rounds do not
follow the number of workers, as then the answer would. Not measured."""


@dataclass(frozen=True)
class DesignOptions:
    """How designs are searched; the question is a `design.evaluation.design_question.DesignQuestion`.

    Attributes:
        method: One of `METHODS`. "bounds" maps the designs of the best lower bounds, "gradient" also those that a
            descent on hardware, mappings and fusion together ends at (DOSA; needs PyTorch). None: "gradient" where
            PyTorch is installed, else "bounds".
        evaluations: Designs to map at most; None: `EVALUATIONS`, or no limit for an exhaustive search and where there
            is a time limit.
        time_limit: Seconds for the search with its last steps; None: no limit. Designs that are being mapped then are
            given up, but the first one where none is known.
        prune: Whether a design whose lower bound is no better than a known design is left out.
        neighbours: Whether designs beside the best one are mapped at the end, beyond the evaluations asked for: an
            octave away, a quarter, and one value; a better one takes its place, until none is better or as many
            designs have been mapped again as asked for.
        per_round: Designs proposed at a time; None: by the method, see `ROUND`. The answer depends on it.
        jobs: Designs at work at a time; None: one for each core. The answer does not depend on it.
        backend: One of `design.evaluation.work_force.BACKENDS`.
        address: Address of the cluster; see `design.evaluation.work_force.work_force`.
        shard: (i, n): of every n designs proposed, only the i-th is evaluated, counted from 1; the others are left to
            runs with other i. None: all.
        store: Folder in which all that is evaluated is kept for other runs; None: it is kept for this run alone.
    """

    method: str | None = None
    evaluations: int | None = None
    time_limit: float | None = None
    prune: bool = True
    neighbours: bool = True
    per_round: int | None = None
    jobs: int | None = None
    backend: str = "processes"
    address: str | None = None
    shard: tuple[int, int] | None = None
    store: Path | None = None

    @property
    def round(self) -> int:
        """Designs proposed at a time."""
        return self.per_round or ROUND["untaught" if self.method in UNTAUGHT else "taught"]

    @property
    def most_mapped(self) -> float:
        """Designs to map at most, by this shard."""
        if self.evaluations is None:
            endless = self.method == "exhaustive" or self.time_limit is not None
            return float("inf") if endless else EVALUATIONS
        return self.evaluations if self.shard is None else -(-self.evaluations // self.shard[1])


def check_design_options(options: DesignOptions) -> None:
    """Checks options before a search.

    Raises:
        FadiffError: An option is out of its range, or options do not go together; the message has what is accepted.
    """
    if options.method not in METHODS:
        raise FadiffError(f"method: found {options.method!r}; accepted: {listed(METHODS)}")
    for name in ("evaluations", "per_round", "jobs"):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise FadiffError(f"{name.replace('_', ' ')}: found {value!r}; accepted: a whole number from 1")
    if options.jobs is not None and options.jobs > MOST_THREADS:
        raise FadiffError(f"jobs: found {options.jobs}; accepted: a whole number from 1 to {MOST_THREADS}")
    if options.time_limit is not None and not options.time_limit > 0:
        raise FadiffError(f"time limit: found {options.time_limit!r}; accepted: seconds greater than 0")
    if options.shard is not None:
        number, shards = options.shard
        if not 1 <= number <= shards:
            raise FadiffError(f"shard: found {number}/{shards}; accepted: i/n with i from 1 to n")
        if options.method not in UNTAUGHT:
            raise FadiffError(f"shard: the method {options.method} learns from every design, so that its designs "
                              f"cannot be dealt out; accepted: the methods {listed(UNTAUGHT)}")
        if options.store is None:
            raise FadiffError("shard: found no store, in which shards put together what they find; accepted: a folder")
