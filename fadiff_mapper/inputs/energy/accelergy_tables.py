"""Asks Accelergy for the energies and areas of an architecture, and caches the answers."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.base import atomic_files, run_program
from fadiff_mapper.base.errors import FadiffError, SpecError, listed
from fadiff_mapper.inputs.energy import accelergy_components as components
from fadiff_mapper.inputs.native.tables import read_tables
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import Tables, component_name, missing_actions
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.input_file import read_text
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import Map, with_places
from fadiff_mapper.inputs.yaml.place import Where

NEEDED = ("ERT.yaml", "ART.yaml")  # files without which a run has failed, whatever its exit code
COMPUTE = "compute"  # the action of a primitive component that computes
LOG = "accelergy.log"  # name of Accelergy's printed output among the files of an answer
INHERITED = ("HOME", "PATH", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH")
"""The environment variables that Accelergy sees. Others could make it load functions (`ACCELERGY_MATH_FUNCTIONS`),
libraries of components, or Python modules."""
MEMORY = 2 * 2 ** 30  # bytes of address space of Accelergy and of each program that it starts
TIME_LIMIT_S = 60.0  # seconds for one run, a safety limit
PRECISION = "17"  # significant digits that Accelergy is asked for: all of a double, as only sums are rounded
DIGITS = 6  # significant digits of the figures that Accelergy writes by default
MOST_BYTES = 16 * 2 ** 20  # bytes of one file, a plain safety limit
MOST_KEPT = 1 << 28  # bytes of kept answers that are read: a plain safety limit, above all files that one run may leave
COMPLAINT = re.compile(r"\w*(Error|Exception)\b: *\S.*")  # last line of a Python traceback, from the exception on
ANSWER_FORMAT = "3"  # number of the format of cached answers; answers of other formats are not read
ASK_VERSION = "from importlib.metadata import version; print(version('accelergy'))"
VERSION = re.compile(r"\d[\w.+-]{0,40}", re.ASCII)  # a printed version; any other output counts as no answer
CONFIGURATION = ".config/accelergy/accelergy_config.yaml"  # Accelergy's, below the home folder
UNUSABLE = "Accelergy left a table that cannot be used"
AVOID = "--energy bundled, estimate or built-in does without Accelergy"


# Accelergy renders its input as a template and evaluates text in it as Python, sometimes twice, even quoted text. So
# expressions are computed before (`accelergy_components`), and only text that cannot run is handed over.

WORD = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)  # a name of a class, an action, an attribute or an argument
WORDS = re.compile(rf"(?:{WORD.pattern}(?: {WORD.pattern})*)?", re.ASCII)
"""A text: plain words with single spaces between them, or nothing."""
LONGEST = 100  # characters of a name or text, a plain safety limit
MOST_VALUES = 10_000  # values of a list, a plain safety limit
PRIMITIVES = {"mac": "{}mac", "add": "{}adder", "mul": "{}multiplier", "max": "comparator"}
"""Operations of compute units -> classes of primitive components of Accelergy's plug-ins; {} is "int" or "fp"."""
SYSTEM, ASKED = "asked", "component_{}"
"""Names in a request: of the architecture, and of a primitive component by its number."""


def why_not(arch: Architecture) -> str | None:
    """The reason why Accelergy cannot be asked about an architecture; None where it can."""
    tree = any("subtree" in tree or "local" in tree for tree in arch.native.values())
    return None if tree else "it does not read the old list format"


def request(hardware: components.DescribedHardware) -> str:
    """Writes the input of Accelergy, the text of a YAML file.

    A primitive component of the architecture keeps its class, with its number as name. Each part of a compound
    component gets a class with only this part (`part_name`), so that its actions can have arguments (`action_name`).
    """
    version = plain_value(hardware.version, "version")
    local = [{"name": ASKED.format(number), "class": _name(one.kind, one.name),
              "area_scale": plain_value(one.area_scale, one.name),
              "energy_scale": plain_value(one.energy_scale, one.name),
              "required_actions": [_name(action, one.name) for action in one.actions],
              "attributes": _plain(one.attributes, f'{one.name}: class "{one.kind}"', _untold(one))}
             for number, one in enumerate(hardware.primitives)]
    classes: dict[str, dict[str, Any]] = {}
    actions: dict[str, dict[str, dict[str, Any]]] = {}
    for compound in hardware.compounds:
        place = f'{compound.name}: class "{compound.kind}"'
        for part in compound.parts:
            name = part_name(part)
            if name not in classes:
                attributes = _plain(part.attributes, f'{place}: {part.name}: class "{part.kind}"')
                storage = {"name": "part", "class": _name(part.kind, place), "area_scale": 1, "energy_scale": 1,
                           "attributes": attributes}
                classes[name], actions[name] = {"name": name, "attributes": {}, "subcomponents": [storage]}, {}
                local.append({"name": name, "class": name, "attributes": attributes})
        for step in (step for action in compound.actions for step in action.steps):
            known, name, at = actions[part_name(step.part)], action_name(step), f"{place}: {step.name}: {step.action}"
            if name not in known:
                called = {"name": _name(step.action, at), "arguments": _plain(step.arguments, at)}
                known[name] = {"name": name, "subcomponents": [{"name": "part", "actions": [called]}]}
    # From version 0.4 on the tree itself must state these attributes. Components inherit none: each states its own.
    around = {key: 1 for key in components.REQUIRED if all(key in one["attributes"] for one in local)}
    tree = {"version": version, "subtree": [{"name": SYSTEM, "attributes": around, "local": local}]}
    sections: dict[str, Any] = {"architecture": tree}
    if classes:
        sections["compound_components"] = {"version": version, "classes": [
            one | {"actions": list(actions[name].values())} for name, one in classes.items()]}
    return json.dumps(sections, indent=1) + "\n"


def part_name(part: components.PrimitiveComponent) -> str:
    """The name of a part of a compound component in a request; equal parts have equal names."""
    return "part_" + _digest(part.kind, part.attributes)


def action_name(step: components.PartAction) -> str:
    """The name of an action of a part, with its arguments, in a request."""
    return "action_" + _digest(step.action, step.arguments)


def _digest(kind: str, values: Mapping[str, Any]) -> str:
    """A name for a class or action with these values; their order counts, as it may for a plug-in."""
    text = json.dumps([kind, list(values.items())], default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def plain_value(value: Any, place: str) -> Any:
    """Checks for None, a number, a truth value, plain words or a list of these. Raises SpecError for other values."""
    if isinstance(value, str):
        if WORDS.fullmatch(value) and len(value) <= LONGEST:
            return str(value)
    elif isinstance(value, list) and len(value) <= MOST_VALUES and not any(isinstance(item, list) for item in value):
        return [plain_value(item, place) for item in value]
    elif value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise _refusal(place, value)


def _refusal(place: str, value: Any) -> SpecError:
    return SpecError(f"{place}: found {str(value)[:60]!r}, which is not handed to Accelergy as it might run it; "
                     "accepted: numbers, truth values, and plain words of letters, digits and _ . - "
                     f"({LONGEST} characters at most)")


def _untold(one: components.PrimitiveComponent) -> set[str]:
    """The attributes that cannot be handed to Accelergy, being no plain values, and that it can do without."""
    told = set()
    for key in one.spare:
        with suppress(SpecError):
            plain_value(one.attributes[key], "")
            told |= {key} if WORD.fullmatch(key) else set()
    return {*one.spare} - told


def _plain(values: Mapping[str, Any], place: str, without: Collection[str] = ()) -> dict[str, Any]:
    """Values by name. Raises SpecError."""
    return {_name(key, place): plain_value(value, f"{place}: {key}") for key, value in values.items()
            if key not in without}


def _name(name: str, place: str) -> str:
    """A name of one plain word. Raises SpecError."""
    if not WORD.fullmatch(name) or len(name) > LONGEST:
        raise _refusal(place, name)
    return str(name)


def assembled(hardware: components.DescribedHardware, answered: Tables, energies_by: Mapping[str, str],
              areas_by: Mapping[str, str]) -> dict[str, Any]:
    """The sections of Accelergy's files for an input: ERT, ART, their summaries, and the flattened architecture.

    The energy of a compound component's action is the sum over its steps: the energy of the primitive action, times its
    scale, times the components of the range that it names, times the scale of the component. Its area is the sum over
    its parts: area times scale times components (Accelergy's `ERT_generator.py`, `ART_generator.py`). Accelergy lists
    primitive components first, and leaves components without actions out of the ERT. A missing figure is a FadiffError.
    `answered` has Accelergy's tables in full precision; `energies_by` and `areas_by` name the plug-in of each
    component. The summaries are left out where `areas_by` is empty, as Accelergy then names no plug-ins.
    """
    tables = {component_name(table.component): table for table in answered.ert}
    areas = {component_name(name): area for name, area in answered.art.items()}
    ert, art, ert_summary, art_summary = [], [], [], []

    def figure(figures: Mapping[str, float], name: str, whose: str) -> float:
        if name not in figures:
            raise FadiffError(f"no figure of {whose}")
        return figures[name]

    def enter(name: str, rows: list[dict[str, Any]], area: float, energy_estimators: Mapping[str, str],
              area_estimators: Any) -> None:
        if rows:
            ert.append({"name": name, "actions": rows})
            by_action: dict[str, list[float]] = {}
            for row in rows:
                by_action.setdefault(row["name"], []).append(row["energy"])
            ert_summary.append({"name": name, "actions": [
                {"name": action, "energy": found[0]} if len(found) == 1 else
                {"name": action, "average_energy": rounded(sum(found) / len(found)), "max_energy": max(found),
                 "min_energy": min(found)} for action, found in by_action.items()], "primitive_estimation(s)": [
                {"name": part, "estimator": estimator} for part, estimator in energy_estimators.items()]})
        art.append({"name": name, "area": rounded(area)})
        art_summary.append({"name": name, "area": rounded(area), "primitive_estimations": area_estimators})

    for number, one in enumerate(hardware.primitives):
        asked = ASKED.format(number)
        rows = [{"name": entry.action, "arguments": entry.arguments, "energy": rounded(entry.energy)}
                for entry in (tables[asked].entries if asked in tables else ())]
        enter(one.name, rows, figure(areas, asked, one.name), {one.name: energies_by.get(asked, "")},
              areas_by.get(asked, ""))
    for compound in hardware.compounds:
        rows, area = [], 0.0
        for action in compound.actions:
            energy = 0.0
            for step in action.steps:
                known = tables[part_name(step.part)].actions if part_name(step.part) in tables else {}
                energy += figure(known, action_name(step), f"{compound.name}: {step.name}: {step.action}") \
                    * step.energy_scale * components.instances(step.name) * step.part.energy_scale
            rows.append({"name": action.name, "arguments": dict(action.arguments), "energy": rounded(energy)})
        for part in compound.parts:
            area += figure(areas, part_name(part), f"{compound.name}: {part.name}") * part.area_scale \
                * components.instances(part.name)
        enter(compound.name, rows, area, {step.name: energies_by.get(part_name(step.part), "")
                                          for action in compound.actions for step in action.steps},
              [{"name": part.name, "estimator": areas_by.get(part_name(part), "")} for part in compound.parts])
    version = {"version": answered.version}
    sections = {"ERT": version | {"tables": ert}, "ART": version | {"tables": art},
                "architecture": version | {"local": [
                    {"name": one.name, "class": one.kind, "attributes": dict(one.attributes)}
                    for one in hardware.components]}}
    if areas_by:
        sections |= {"ERT_summary": version | {"table_summary": ert_summary},
                     "ART_summary": version | {"table_summary": art_summary}}
    return sections


def rounded(value: float) -> float:
    """A figure rounded to the digits that Accelergy writes by default."""
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, DIGITS - math.floor(math.log10(abs(value))) - 1)


@dataclass(frozen=True)
class AccelergyAnswer:
    """One answer of Accelergy."""

    tables: Tables  # its ERT and ART
    files: Mapping[str, str]  # Accelergy's output files for the input, and its `LOG`, by name
    notes: tuple[str, ...] = ()  # a sentence on attributes that were withheld from Accelergy, if any


def complete_answer(arch: Architecture, literal: Mapping[str, Any], program: str) -> AccelergyAnswer:
    """As `answer`, but a component without energies is a FadiffError. Messages say how to do without Accelergy."""
    try:
        found = answer(arch, literal, program, os.environ)
        missing = missing_actions(arch, found.tables)
        if missing:
            raise FadiffError(f"Accelergy left a table without energies for {listed(missing)}")
    except FadiffError as error:
        family = SpecError if isinstance(error, SpecError) else FadiffError
        raise family(f"{error}; {AVOID}") from None
    return found


def answer(arch: Architecture, literal: Mapping[str, Any], program: str,
           environment: Mapping[str, str]) -> AccelergyAnswer:
    """Asks Accelergy about an architecture; a repeated question is answered from the cache.

    `literal` gives the compound components (see `Spec.literal`). The answer is not necessarily complete: a plug-in
    may be lacking. FadiffError where Accelergy fails, SpecError for unusable input.
    """
    return _answered(components.described(arch, literal), program, environment,
                     lambda tables: not missing_actions(arch, tables))


def operation_energies(arch: Architecture, literal: Mapping[str, Any], program: str) -> dict[str, tuple[float, str]]:
    """The energies of the operations in `PRIMITIVES`: name -> (pJ, source).

    Accelergy is asked about primitive components with all attributes of the arithmetic: its technology, clock, bits and
    kind of numbers. Errors as in `answer`; FadiffError where it does not price all of them.
    """
    whole = components.described(arch, literal)
    unit = next((one for one in whole.components if component_name(one.name) == arch.arithmetic.name),
                whole.components[-1])
    kinds = {operation: kind.format("fp" if unit.kind.startswith("fp") else "int")
             for operation, kind in PRIMITIVES.items()}
    spare = unit.spare if isinstance(unit, components.PrimitiveComponent) else frozenset()
    found = _answered(components.DescribedHardware(whole.version, tuple(
        components.PrimitiveComponent(operation, kind, unit.attributes, actions=(COMPUTE,), spare=spare)
        for operation, kind in kinds.items())), program, os.environ, lambda tables: True)
    priced = {table.component: (table.actions[COMPUTE], f"{table.source} ({kinds[table.component]})")
              for table in found.tables.ert if COMPUTE in table.actions}
    if lacking := kinds.keys() - priced:
        raise FadiffError(f"Accelergy left a table without energies for {listed(sorted(lacking))}")
    return priced


def _answered(hardware: components.DescribedHardware, program: str, environment: Mapping[str, str],
              complete: Callable[[Tables], bool]) -> AccelergyAnswer:
    """The answer about some components, cached if its tables are `complete`; arguments and errors as for `answer`."""
    text = request(hardware)
    version = installed_version(program, environment)
    home = environment.get("HOME")
    files = [Path(program), *([Path(home) / CONFIGURATION] if home else [])]
    parts = [ANSWER_FORMAT, text, version, *(
        hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "" for file in files)]
    lengths = "".join(f"{len(part)}:{part}" for part in parts)  # without them ("ab", "c") would be ("a", "bc")
    name, folder = f"{hashlib.sha256(lengths.encode('utf-8', 'surrogatepass')).hexdigest()}.json", answers_folder()
    if folder and (folder / name).is_file():
        with suppress(FadiffError, ValueError, RecursionError):  # damaged: ask again
            kept = json.loads(read_text(folder / name, "answers of Accelergy", MOST_KEPT))
            if isinstance(kept, dict) and all(isinstance(text, str) for text in kept.values()):
                return _read(hardware, kept, version)
    written = ask(text, program, environment)
    fresh = _read(hardware, written, version)
    if folder and complete(fresh.tables):  # else a plug-in is lacking, which may be installed later
        with suppress(FadiffError):  # the cache only saves time
            atomic_files.write_files(folder, {name: json.dumps(written, indent=1)})
    return fresh


def answers_folder() -> Path | None:
    """The folder of kept answers: under XDG_CACHE_HOME, else ~/.cache; None where the user has no home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "fadiff_mapper" / "energies"


def answer_about_files(files: Sequence[str], program: str, environment: Mapping[str, str]) -> AccelergyAnswer:
    """Asks Accelergy about input files as they are, by absolute paths; nothing is kept. Errors as in `answer`.

    The files must be trusted: their text is evaluated, and functions and plug-ins that they name are loaded.
    """
    written = ask(files, program, environment)
    ert, art = (_section(written, kind) for kind in ("ERT", "ART"))
    try:
        tables = read_tables(ert, ert.where, art, art.where, _source(ert, installed_version(program, environment)))
    except FadiffError as error:
        raise FadiffError(f"{UNUSABLE}: {first_line(str(error))}") from None
    return AccelergyAnswer(tables, written)


def ask(given: str | Sequence[str], program: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Runs Accelergy on an input, for `TIME_LIMIT_S` at most.

    `given` is YAML text, or paths of trusted files. For files Accelergy runs as under Timeloop, with the whole
    environment instead of the `inherited` variables; for text, figures have `PRECISION` digits. Returns every YAML file
    that it writes, and its `LOG`, by name. A missing file is a failure, as the exit code does not tell.
    """
    with tempfile.TemporaryDirectory(prefix="fadiff-accelergy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "out").mkdir()
        if isinstance(given, str):
            (folder / "input.yaml").write_text(given, encoding="utf-8")
            words, variables = ["input.yaml", "-o", "out", "-p", PRECISION], inherited(environment)
        else:  # files that are trusted, run as Timeloop runs them
            words, variables = [*given, "-o", "out"], dict(environment)
        done = run_program.run([program, *words], folder, variables, TIME_LIMIT_S, MEMORY, temporary=True)
        lines = [line for line in map(first_line, done.output.splitlines()) if line]
        complaints = [match[0] for line in lines if (match := COMPLAINT.search(line))]
        reason = next(iter([*complaints[-1:], *lines[-1:]]), "it printed nothing")
        if done.returncode != 0:
            raise FadiffError(f"{program} {done.how}: {reason}")
        written = [path for path in sorted((folder / "out").glob("*.yaml")) if path.is_file()]
        for needed in NEEDED:
            if needed not in (path.name for path in written):
                raise FadiffError(f"Accelergy ended without writing {needed}: {reason}")
        texts = {}
        for path in written:
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise FadiffError(f"Accelergy wrote {size} bytes into {path.name}; at most {MOST_BYTES}")
            try:
                texts[path.name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise FadiffError(f"Accelergy left an {path.name} that cannot be read: {error.reason}") from None
        return texts | {LOG: done.output}


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of Accelergy, with one thread for numerical libraries, which reserve memory for each thread."""
    return {name: environment[name] for name in INHERITED if name in environment} | {"OMP_NUM_THREADS": "1"}


def first_line(text: str) -> str:
    """The printable characters of the first line of a text, at most 200, for messages of one line."""
    first = text.strip().partition("\n")[0]
    return "".join(letter for letter in first if letter.isprintable()).strip()[:200]


def installed_version(program: str, environment: Mapping[str, str]) -> str:
    """The version of Accelergy, whose command is the path `program`; "" where this is no Python script.

    The Python of the script's first line is asked, as several may be installed; "" where it gives no answer.
    """
    try:
        with open(program, "rb") as file:
            first = file.readline(1024).decode("utf-8", "replace").split()
        if not first or not first[0].startswith("#!") or "python" not in Path(first[-1]).name:
            return ""
        done = run_program.run([first[0][2:], *first[1:], "-c", ASK_VERSION], Path(program).parent,
                               inherited(environment), 30)
    except (OSError, FadiffError):
        return ""
    said = done.output.strip()
    return said if done.returncode == 0 and VERSION.fullmatch(said) else ""


def _read(hardware: components.DescribedHardware, files: Mapping[str, str], version: str) -> AccelergyAnswer:
    """The answer for the whole input, from the files that Accelergy wrote. Raises FadiffError."""
    ert, art = (_section(files, kind) for kind in ("ERT", "ART"))
    source = _source(ert, version)
    try:
        answered = read_tables(ert if ert.get("tables") else None, ert.where, art, art.where, source)
        sections = assembled(hardware, answered, _estimators(files, "ERT", "primitive_estimation(s)"),
                             _estimators(files, "ART", "primitive_estimations"))
        if not sections["ERT"]["tables"]:
            raise FadiffError("ERT: no component has an action")
        energies, areas = (with_places(sections[kind], Where(kind)) for kind in ("ERT", "ART"))
        tables = read_tables(energies, energies.where, areas, areas.where, source)
    except FadiffError as error:
        raise FadiffError(f"{UNUSABLE}: {first_line(str(error))}") from None
    written = {f"{'flattened_' * (name == 'architecture')}{name}.yaml": dump({name: section})
               for name, section in sections.items()}
    untold = sorted(hardware.unknown.union(*map(_untold, hardware.primitives)))
    notes = (f"Accelergy was not told {listed(untold)}: no numbers or plain words",) if untold else ()
    return AccelergyAnswer(tables, written | {LOG: files.get(LOG, "")}, notes)


def _source(ert: Map, version: str) -> str:
    return f"Accelergy {version}" if version else f"Accelergy (tables of version {ert.get('version', '?')})"


def _estimators(files: Mapping[str, str], kind: str, key: str) -> dict[str, str]:
    """Name of a component in the request -> the plug-in that estimated it; empty without a summary."""
    name, found = f"{kind}_summary", {}
    rows = _section(files, name).get("table_summary") if f"{name}.yaml" in files else ()
    for row in rows if isinstance(rows, list) else ():
        match row:
            case {"name": str(asked)}:
                match row.get(key):
                    case [{"estimator": str(first)}, *_] | str(first):
                        found[component_name(asked)] = first
    return found


def _section(files: Mapping[str, str], kind: str) -> Map:
    name = f"{kind}.yaml"
    try:
        section = load_text(files.get(name, ""), name).get(kind)
    except FadiffError as error:
        raise FadiffError(f"Accelergy left an {name} that cannot be read: {first_line(str(error))}") from None
    if not isinstance(section, Map):
        raise FadiffError(f"Accelergy left no table in {name}")
    return section
