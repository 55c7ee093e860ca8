"""The commands of `fadiff-validate`; `cli` describes their arguments.

Each returns an exit code: 0 where everything agrees, 1 where something does not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.extras import require
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.cli.commands import load_input, read_space, sizes
from fadiff_mapper.inputs.load import files_of, read_document
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.output.run_files import versions
from fadiff_mapper.output.terminal.console import Screen, table
from fadiff_mapper.output.terminal.progress import progress_line
from fadiff_mapper.timeloop.find_programs import find_real
from fadiff_mapper.timeloop.run_model import CLEARED
from fadiff_mapper.workload.readers.load_network import load_network

from . import recording as recordings
from .asking import ask_all
from .certificate import certificate
from .corners.corner_files import corner_files
from .corners.corner_files import verdict as corner_verdict
from .corners.rules import corner
from .corners.running import CornerRun, run_corners
from .fused import measure_fused
from .models import batches, check
from .questions import CORNER_COUNT, CORNERS, SUITES, Question, best_questions, random_questions
from .recording import Recording
from .report import report_files
from .report.context import Context
from .report.files import verdict
from .report.tables import overall
from .store import Store
from .summary import summarize
from .tables import Price, prices
from .tasks import bundled_tasks
from .tools import PROGRAM, Backend, container, native


def run(options: argparse.Namespace) -> int:
    """`run`: asks or replays, measures, and writes the report. Raises FadiffError where no mapping was accepted."""
    if options.suite == CORNERS:
        return corners(options)
    require("matplotlib", "plot", "the report")
    atomic_files.check_writable(options.output)
    recording = replayed(options) if backend_name(options) == "recorded" else asked(options)
    answers = recording.answers
    accepted = batches(answers)
    if not accepted:
        raise FadiffError(f"no mapping was accepted of {len(answers)} that were asked about; accepted: designs "
                          "that `fadiff-mapper bundled` lists, operators that `fadiff-validate run --help` lists")
    context = Context(
        recording.tool, options.command, versions(), cleared(),
        summarize(accepted, check(answers), options.resamples), accepted, [Price(**row) for row in recording.tables],
        [item.failure for item in answers if item.failure], None if options.no_fused else measure_fused())
    atomic_files.write_files(options.output, report_files(context))
    _print(context, options.output)
    return 0 if context.agrees else 1


def cleared() -> dict[str, str]:
    """The variables that runs of Timeloop do not inherit, with their values."""
    return {name: value for name, value in os.environ.items() if name.startswith(CLEARED)}


def corners(options: argparse.Namespace) -> int:
    """`run --suite corners`: asks about corners, writes what differs. Raises FadiffError without a real tool."""
    if backend_name(options) == "recorded":
        raise FadiffError(f"--suite {CORNERS} needs a real tool, and there is no {PROGRAM} on the PATH; accepted: "
                          "--backend native or container")
    _refuse_choice(options)
    atomic_files.check_writable(options.output)
    count, tool = _corner_count(options), backend(options)
    outcome = CornerRun(tool.tool, options.seed or 0)
    try:
        with _progress("asking about corners", count) as advance:
            run_corners(outcome, count, tool, options.cache, options.jobs, advance)
    finally:  # a run that is stopped reports what it has
        atomic_files.write_files(options.output, corner_files(outcome, options.command))
        say(f"{corner_verdict(outcome)}\nReport: {options.output / 'corners.md'}")
    for failure in outcome.failures[:10]:
        say(f"no answer: {failure}", sys.stderr)
    return 0 if outcome.agrees else 1


def _refuse_choice(options: argparse.Namespace) -> None:
    """Raises FadiffError for options that choose among the bundled designs."""
    for name in ("design", "operator", "best"):
        if getattr(options, name):
            raise FadiffError(f"--{name} chooses among bundled designs and operators, and corners have machines of "
                              f"their own; accepted beside --suite {CORNERS}: --mappings, --seed")


def _corner_count(options: argparse.Namespace) -> int:
    """How many corners to ask about."""
    return CORNER_COUNT if options.mappings is None else int(options.mappings)


def record(options: argparse.Namespace) -> int:
    """`record`: asks, and writes a file that `run --backend recorded --recording FILE` replays.

    Raises FadiffError without a real tool.
    """
    if backend_name(options) == "recorded":
        raise FadiffError("record needs a real tool; accepted: --backend native or container")
    atomic_files.check_names(options.output.parent, [options.output.name])
    recording = asked(options)
    atomic_files.write_files(options.output.parent, {options.output.name: recordings.written(recording)})
    failures = [item.failure for item in recording.answers if item.failure]
    say("\n".join([*failures, f"{options.output}: {len(recording.answers) - len(failures)} answers"]))
    return 1 if failures else 0


def mapping(options: argparse.Namespace) -> int:
    """`mapping`: checks emitted results and writes a certificate. Raises FadiffError without a real tool."""
    if backend_name(options) == "recorded":
        raise FadiffError(f"no recording knows this mapping, and there is no {PROGRAM} on the PATH; "
                          "accepted: --backend native or container")
    content, agrees = certificate(options.folder, backend(options))
    target: Path = options.output or options.folder / "certificate.json"
    atomic_files.write_files(target.parent, {target.name: json.dumps(content, indent=1) + "\n"})
    for layer in content["layers"]:
        wrong = layer["differences"]
        say(f"{layer['folder']}: " + (f"{len(wrong)} differences" if wrong else
                                      f"all {layer['numbers']} numbers as {PROGRAM} gives them"))
        for text in wrong:
            say(f"  {text}")
    say(f"certificate: {target}")
    return 0 if agrees else 1


def proof(options: argparse.Namespace) -> int:
    """`certificate`: checks the certificate of a mapping, a plan or a design; 1 if it does not prove its claim."""
    from . import check_certificate, check_designs, check_plan
    try:
        content = json.loads(options.certificate.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FadiffError(f"{options.certificate}: {error}; accepted: a certificate in JSON") from None
    try:
        if isinstance(content, dict) and "designs" in content:
            file, *names = options.files
            networks = [load_network(name, **sizes(options)) for name in names]
            say(check_designs.check(content, read_space(options, files_of([file, *options.arch])), networks,
                                    options.weights or (1.0,) * len(networks)))
            return 0
        for name, given in (("arch", options.arch), ("vary", options.vary), ("limit", options.limits),
                            ("weights", options.weights)):
            if given:
                raise FadiffError(f"--{name}: found with a certificate that is not of designs; accepted: of designs")
        options.energy = options.energy or "auto"
        if isinstance(content, dict) and "plan" in content:
            network, *files = options.files
            workload = load_network(network, **sizes(options))
            document = read_document(*files_of(files), jinja_data=options.variables)
            say(check_plan.check(content, workload, specs_of(
                workload, document, options.energy, strict=not options.lenient)))
        else:
            say(check_certificate.check(content, load_input(options)))
    except check_certificate.Rejected as rejected:
        say(str(rejected), sys.stderr)
        return 1
    return 0


def backend_name(options: argparse.Namespace) -> str:
    """The backend that answers; "auto" is the native one where `timeloop-model` is on the PATH, else recorded."""
    name: str = options.backend
    return name if name != "auto" else "native" if find_real(PROGRAM) else "recorded"


def backend(options: argparse.Namespace) -> Backend:
    """The real tool that the options name. Raises FadiffError where this machine lacks it."""
    if backend_name(options) == "native":
        return native(options.tool_version)
    return container(options.image, options.tool_version, options.container_flag)


def replayed(options: argparse.Namespace) -> Recording:
    """The recording, or its part for the designs and operators of the options.

    Raises FadiffError for options that only a real tool can follow.
    """
    for name in ("suite", "mappings", "best", "seed"):
        if getattr(options, name) is not None:
            raise FadiffError(f"--{name} chooses what a real tool is asked, and there is none; accepted: --backend "
                              "native or container, or recorded answers as they are")
    return recordings.read(options.recording or recordings.BUNDLED, options.design, options.operator)


def asked(options: argparse.Namespace) -> Recording:
    """The real tool's answers to the questions of the options, and Accelergy's energies unless switched off."""
    tool = backend(options)
    store = Store(options.cache)
    questions = list(_questions(options))
    with _progress("asking Timeloop", len(questions)) as advance:
        answers = ask_all(questions, tool, store, options.jobs, lambda _: advance())
    rows = [] if options.no_tables or options.suite == CORNERS else prices(options.design)
    return Recording(tool.tool, tuple(answers), tuple(price.as_dict() for price in rows))


def _questions(options: argparse.Namespace) -> Iterator[Question]:
    """The suite's questions, or as many as the options say instead."""
    if options.suite == CORNERS:
        _refuse_choice(options)
        yield from (corner(number, options.seed or 0).question() for number in range(_corner_count(options)))
        return
    count, best = SUITES[options.suite or "quick"]
    seed = options.seed or 0
    count, best = (given if given is not None else default
                   for given, default in ((options.mappings, count), (options.best, best)))
    tasks = bundled_tasks(options.design, options.operator)
    with _progress("drawing mappings", len(tasks)) as advance:
        for task in tasks:
            yield from random_questions(task, count, seed)
            yield from best_questions(task, best, seed, options.jobs)
            advance()


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on the terminal's standard error; nothing where that is a file."""
    with progress_line(title, False, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as update:
        update(total=total)
        yield lambda: update(advance=1)


def _print(context: Context, folder: Path) -> None:
    """Prints the table over all mappings, the verdict, and the first failures."""
    summary = overall(context.summary)
    printed = table(summary.title, *summary.head)
    for row in summary.rows:
        printed.add_row(*row)
    Screen().print(printed)
    say("\n" + verdict(context) + f"\nReport: {folder / 'report.html'}")
    for failure in context.failures[:10]:
        say(f"no answer: {failure}", sys.stderr)
