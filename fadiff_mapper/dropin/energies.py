"""Energies as Timeloop's programs come by them: when they ask Accelergy, and the names of its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fadiff_mapper.base.errors import listed
from fadiff_mapper.energy import accelergy_tables, find_accelergy
from fadiff_mapper.energy.accelergy_request import why_not
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import energy_sources


def with_energies(spec: Spec, program: str, environment: Mapping[str, str], say: Callable[[str], None],
                  trusted_files: Sequence[str] = ()) -> tuple[Spec, dict[str, str]]:
    """Adds the energies that Timeloop would compute with.

    As Timeloop does, Accelergy is asked only where the input has no ERT and describes components that it can price.

    Args:
        spec: The input.
        program: The program that runs, which Accelergy's files are named after.
        environment: All variables that the program sees.
        say: Takes the lines that the program prints.
        trusted_files: Files that Accelergy gets as Timeloop would hand them over, and may run; none: it gets what
            `accelergy_tables.answer` makes of the input.

    Returns:
        The input with its energies, and the files that Accelergy wrote for it, by name.

    Raises:
        FadiffError: Accelergy fails (see `accelergy_tables.answer`).
    """
    if any(table.source.startswith("ERT") for table in spec.tables.ert) or why_not(spec.arch):
        return spec, {}
    command = installed(environment)
    if command is None:
        sources = listed(dict.fromkeys(energy_sources(spec.arch, spec.tables).values()))
        say(f"WARNING: no ERT in the input and no accelergy on the PATH: energies are {sources}")
        return spec, {}
    say(f"execute: {command}")
    answer = (accelergy_tables.answer_about_files(trusted_files, command, environment) if trusted_files
              else accelergy_tables.answer(spec.arch, spec.literal, command, environment))
    for note in answer.notes:
        say(f"WARNING: {note}")
    return replace(spec, tables=answer.tables), {f"{program}.{name}": text for name, text in answer.files.items()}


def installed(environment: Mapping[str, str]) -> str | None:
    """The accelergy command: on the PATH, else in the folder that ACCELERGYPATH names, as Timeloop looks for it."""
    folders = (environment.get(name, "") for name in ("PATH", "ACCELERGYPATH"))
    return next((command for path in folders if (command := find_accelergy.installed(path))), None)
