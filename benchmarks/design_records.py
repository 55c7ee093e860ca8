"""Records of runs of `design_methods`, a line of JSON each, and the tables that they give.

A run that was stopped leaves the records of those that ended, and the next one goes on from there.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from provenance import Write, commit, heading, row

GRADIENT = "gradient"
"""The method whose time the others get."""


@dataclass(frozen=True)
class Step:
    """The books after one design: designs mapped, CPU seconds since the start, the least EDP in uJ x cycles."""

    designs: int
    cpu_s: float
    edp: float


@dataclass(frozen=True)
class Record:
    """One run: what it searched, every step of it, and the commit and the day that it was made on."""

    network: str
    method: str
    seed: int
    steps: tuple[Step, ...]
    commit: str
    date: str

    def after(self, designs: int) -> float | None:
        """The least EDP of so many designs; None where fewer were mapped."""
        return next((step.edp for step in self.steps if step.designs == designs), None)

    def within(self, cpu_s: float) -> Step | None:
        """The last step that ended within some CPU seconds; None where not even the first did."""
        return next((step for step in reversed(self.steps) if step.cpu_s <= cpu_s), None)

    def seconds(self, designs: int) -> float | None:
        """CPU seconds until so many designs were mapped; None where fewer were."""
        return next((step.cpu_s for step in self.steps if step.designs == designs), None)


def recorded(network: str, method: str, seed: int, steps: Sequence[Step]) -> Record:
    """A record made now."""
    return Record(network, method, seed, tuple(steps), commit(), datetime.now(timezone.utc).date().isoformat())


def read_records(file: Path) -> list[Record]:
    """All records of a file; none where there is no file."""
    if not file.is_file():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [Record(**each | {"steps": tuple(Step(**step) for step in each["steps"])}) for each in rows]


def add_record(file: Path, record: Record) -> None:
    """Adds a line to a file."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(record)) + "\n")


def write_tables(records: Sequence[Record], methods: Sequence[str], baselines: dict[str, str], counts: Sequence[int],
                 write: Write) -> None:
    """Writes what was measured by whom, and the three tables: after equally many designs, in equal time, baselines.

    Args:
        records: The runs.
        methods: Methods of `search_design` in the order of the rows.
        baselines: What stands beside them, by name and in words.
        counts: Numbers of designs, ascending.
        write: Takes lines.
    """
    made = sorted({(each.date, each.commit) for each in records})
    write("Records of " + ", ".join(f"{date} at commit {revision}" for date, revision in made) + ".\n")
    write("## Equal numbers of designs\n")
    networks = list(dict.fromkeys(each.network for each in records))
    write(heading("network", "method", "seeds", *(f"{count} designs" for count in counts), "CPU s"))
    for network in networks:
        for method in methods:
            own = _of(records, network, method)
            if own:
                write(row(network, method, len(own), *(_spread([each.after(count) for each in own])
                                                       for count in counts),
                          _spread([each.seconds(counts[-1]) for each in own], "{:.0f}")))
    write("\n## Equal time\n")
    write(heading("network", "method", "seeds", "CPU s", "designs", "EDP", f"above {GRADIENT}"))
    for network in networks:
        for method in methods:
            _equal_time(records, network, method, counts[-1], write)
    write("\n## Baselines\n")
    _baselines(records, networks, baselines, counts[-1], write)


def _equal_time(records: Sequence[Record], network: str, method: str, most: int, write: Write) -> None:
    """Writes what a method finds in the CPU seconds that the gradient's designs of the same seed took."""
    pairs = []
    for leader in _of(records, network, GRADIENT):
        for other in (each for each in _of(records, network, method) if each.seed == leader.seed):
            seconds, edp = leader.seconds(most), leader.after(most)
            step = None if seconds is None else other.within(seconds)
            if step is not None and edp is not None and seconds is not None:
                pairs.append((seconds, step, step.edp / edp - 1))
    if pairs:
        write(row(network, method, len(pairs), _spread([seconds for seconds, _, _ in pairs], "{:.0f}"),
                  _spread([step.designs for _, step, _ in pairs], "{:g}"), _spread([step.edp for _, step, _ in pairs]),
                  _spread([above for _, _, above in pairs], "{:.2%}")))


def _baselines(records: Sequence[Record], networks: Sequence[str], baselines: dict[str, str], most: int,
               write: Write) -> None:
    """Writes each baseline beside the gradient, and the geometric mean of their ratios."""
    write(heading("network", "beside the gradient", "seeds", "EDP", "times the gradient's", "CPU s"))
    ratios: dict[str, list[float]] = {}
    for network in networks:
        ends = [edp for each in _of(records, network, GRADIENT) if (edp := each.after(most)) is not None]
        for name, words in baselines.items():
            own = _of(records, network, name)
            if own:
                found = [each.steps[-1].edp for each in own]
                ratio = [statistics.median(found) / statistics.median(ends)] if ends else []
                ratios.setdefault(name, []).extend(ratio)
                write(row(network, words, len(own), _spread(found), _spread(ratio, "{:.3g}"),
                          _spread([each.steps[-1].cpu_s for each in own], "{:.0f}")))
    for name, values in ratios.items():
        if values:
            write(row(f"geometric mean of {len(values)}", baselines[name], "", "",
                      f"{math.exp(statistics.fmean(map(math.log, values))):.3g}", ""))


def _of(records: Sequence[Record], network: str, method: str) -> list[Record]:
    """The runs of one network and method by seed."""
    return sorted((each for each in records if each.network == network and each.method == method),
                  key=lambda each: each.seed)


def _spread(values: Sequence[float | None], form: str = "{:.4g}") -> str:
    """The median and the range of what is there."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    shown: Callable[[float], str] = form.format
    if min(known) == max(known):
        return shown(known[0])
    return f"{shown(statistics.median(known))} ({shown(min(known))} to {shown(max(known))})"
