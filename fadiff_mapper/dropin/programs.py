"""What `timeloop-mapper` and `timeloop-model` do, done by this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper import emit, rundir
from fadiff_mapper.api import evaluate, map_layer
from fadiff_mapper.dropin import accelergy
from fadiff_mapper.dropin.arguments import MAPPER, MODEL, Arguments
from fadiff_mapper.dropin.summary import summary_line
from fadiff_mapper.errors import listed
from fadiff_mapper.inputs import Spec, load
from fadiff_mapper.spec.mapping import Mapping as LoopMapping
from fadiff_mapper.spec.tables import energy_sources
from fadiff_mapper.stats import Stats

SWITCHES = "TIMELOOP_"
"""The variables with this prefix switch parts of Timeloop's model."""

LEFT_BEHIND = {
    MAPPER: ("stats.txt", "map.txt", "map.yaml", "ERT.yaml", "ART.yaml", "ERT_summary.yaml", "ART_summary.yaml",
             "flattened_architecture.yaml", "accelergy.log", "map+stats.xml", "map.cpp", "map.tensella.txt",
             "orojenesis.csv"),
    MODEL: ("stats.txt", "map.txt", "ERT.yaml", "ART.yaml", "ERT_summary.yaml", "ART_summary.yaml",
            "flattened_architecture.yaml", "accelergy.log", "map+stats.xml", "map.tensella.txt"),
}
"""Endings of the files of a run, Timeloop's or ours. What an earlier run left must not pass for a new result."""


@dataclass(frozen=True)
class Settings:
    """How to search, and the environment (all variables) that the programs see."""

    environment: Mapping[str, str]
    seed: int = 0
    time_limit: float | None = None


@dataclass(frozen=True)
class Done:
    """What a program evaluated: the input with its energies, the mapping, and its numbers."""

    spec: Spec
    mapping: LoopMapping
    stats: Stats


Say = Callable[[str], None]
"""Where lines go that Timeloop's programs print."""


def run(program: str, arguments: Arguments, settings: Settings, say: Say) -> Done:
    """Run one program; its files are in the output folder afterwards, all or none. Raises FadiffError.

    Where it fails, the results that an earlier run left in the folder are removed, so that no script takes them for
    new ones.
    """
    try:
        return _run(program, arguments, settings, say)
    except BaseException:
        _remove(program, arguments.output, keep=())
        raise


def _run(program: str, arguments: Arguments, settings: Settings, say: Say) -> Done:
    for name in arguments.files:
        say(f"input file: {name}")
    for name in arguments.left_out:
        say(f"WARNING: found {name} in input file list, ignoring.")
    for name, value in sorted(settings.environment.items()):
        if name.startswith(SWITCHES):
            say(f"WARNING: {name}={value} is ignored: switches of Timeloop's model have no effect here")
    spec, written = _with_energies(load(*arguments.files), program, settings.environment, say)
    for note in spec.notes:
        say(f"note: {note}")
    rundir.check_writable(arguments.output)
    done, files = _mapped(spec, settings, say) if program == MAPPER else _evaluated(spec, say)
    with rundir.lock(arguments.output):
        rundir.write_files(arguments.output, files | written)
        _remove(program, arguments.output, keep=files | written)
    return done


def _mapped(spec: Spec, settings: Settings, say: Say) -> tuple[Done, dict[str, str]]:
    result = map_layer(spec, seed=settings.seed, time_limit=settings.time_limit)
    say(f"{result.status} ({result.evaluations} evaluations, {result.time_s:.2f} s)")
    say(f"\nSummary stats for best mapping found by mapper:\n  {summary_line(result.stats)}")
    return Done(spec, result.mapping, result.stats), emit.run_files(result)


def _evaluated(spec: Spec, say: Say) -> tuple[Done, dict[str, str]]:
    stats = evaluate(spec)
    assert spec.mapping is not None
    say(summary_line(stats))
    return Done(spec, spec.mapping, stats), emit.program_files(MODEL, spec, spec.mapping, stats)


def _with_energies(spec: Spec, program: str, environment: Mapping[str, str], say: Say) -> tuple[Spec, dict[str, str]]:
    """The input with the energies that Timeloop would compute with, and the files that Accelergy wrote for it."""
    if not accelergy.is_asked(spec):
        return spec, {}
    command = accelergy.installed(environment)
    if command is None:
        sources = listed(dict.fromkeys(energy_sources(spec.arch, spec.tables).values()))
        say(f"WARNING: no ERT in the input and no accelergy on the PATH: energies are {sources}")
        return spec, {}
    say(f"execute: {command}")
    found = accelergy.priced(spec, command, program, environment)
    return found.spec, found.files


def _remove(program: str, folder: Path, keep: Mapping[str, str] | tuple[()]) -> None:
    for name in (f"{program}.{ending}" for ending in LEFT_BEHIND[program]):
        if name not in keep:
            with suppress(OSError):
                (folder / name).unlink()
