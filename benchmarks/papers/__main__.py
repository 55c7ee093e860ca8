"""The papers' comparisons on the exact model, side by side: one page with pictures, CSV, and tables in Markdown.

    python -m benchmarks.papers -o DIR [PART ...] [--quick] [--processes N] [--share K/N] [--time-limit S] [--docs FILE]

Every run is recorded in DIR/runs.jsonl as it ends; a run with a record is not run again, so that a command that was
stopped goes on where it was. The page is made of the records that are there. DIR may be the same for several commands
at a time, each with its own share of the runs. optuna and pymoo come with `pip install .[papers]`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from fadiff_mapper.base.atomic_files import check_writable, write_files
from fadiff_mapper.base.errors import FadiffError

from . import records
from .driver import missing_jobs, run_jobs
from .output import PAGE, Section, files, markdown
from .part import Part
from .parts import MODULES, load_parts


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing, and writes the page."""
    options = parsed(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"      # before a library reads it: a run has one thread
    try:
        check_writable(options.output)
        parts, missing = load_parts(options.parts)
        left_out = [f"The part {name} is left out: {library} is not installed." for name, library in missing.items()]
        share, shares = options.share
        asked = sources(parts, options.parts)
        wanted = [(name, job) for name, job in missing_jobs(asked, options.output, options.quick)
                  if crc32(repr((name, job.key)).encode()) % shares == share - 1]
        left = run_jobs(wanted, options.output, options.processes, options.time_limit)
        if left:
            print(f"{left} runs are left; the same command goes on with them")
        sections, runs = made(parts, options.output, options.quick)
        open_runs = len(missing_jobs(asked, options.output, options.quick))
        if open_runs:
            left_out.append(f"{open_runs} runs have no record yet.")
        provenance = told(runs)
        write_files(options.output, files(sections, provenance, left_out))
        if options.docs:
            parts_named = [] if options.parts == list(MODULES) else options.parts
            command = shlex.join(["python", "-m", "benchmarks.papers", "-o", "DIR", *parts_named,
                                  *["--quick"][:options.quick]])
            before = options.docs.read_text(encoding="utf-8") if options.docs.exists() else ""
            write_files(options.docs.parent, {
                options.docs.name: markdown(sections, command, provenance, left_out, before)})
    except FadiffError as error:
        print(error, file=sys.stderr)
        return 2
    for reason in left_out:
        print(reason)
    print(options.output / PAGE)
    return 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"accepted: {', '.join(MODULES)}; default: all")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="small budgets: within an hour on two cores")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="runs at a time (default 1)")
    parser.add_argument("--share", type=_share, default=(1, 1), metavar="K/N",
                        help="one of N shares of the runs, always the same")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds after which no further run begins")
    parser.add_argument("--docs", type=Path, metavar="FILE.md",
                        help="write the tables here as well, as Markdown; what a page has above its mark stays")
    options = parser.parse_args(arguments)
    for name in options.parts:
        if name not in MODULES:
            parser.error(f'unknown part "{name}"; accepted: {", ".join(MODULES)}')
    if options.processes < 1:
        parser.error(f"--processes {options.processes}; accepted: 1 or more")
    options.parts = options.parts or list(MODULES)
    return options


def _share(text: str) -> tuple[int, int]:
    share, _, shares = text.partition("/")
    if not (share.isdigit() and shares.isdigit() and 1 <= int(share) <= int(shares)):
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: K/N with 1 <= K <= N')
    return int(share), int(shares)


def sources(parts: Sequence[Part], names: Sequence[str]) -> list[Part]:
    """The parts that have jobs of their own, with those whose records the others show."""
    asked = [*parts, *(load_parts([part.source])[0][0] for part in parts if part.source and part.source not in names)]
    return [part for part in asked if not part.source]


def made(parts: Sequence[Part], folder: Path, quick: bool) -> tuple[list[Section], list[records.Run]]:
    """The sections of the page, and the runs that they are made of."""
    known, sections, used = records.read(folder), [], []
    for part in parts:
        keys = [(part.source or part.name, job.key) for job in part.jobs(quick)]
        own = [known[key] for key in keys if key in known]
        sections.append((part, part.shown({run.key: run.record for run in own})))
        used += own
    return sections, used


def told(runs: Sequence[records.Run]) -> str:
    """A sentence on where the records come from."""
    if not runs:
        return "No run has a record yet."
    distinct = {(run.part, run.key): run for run in runs}.values()
    commits, machines, dates = (", ".join(sorted({getattr(run, name) for run in distinct}))
                                for name in ("commit", "machine", "date"))
    return (f"{len(distinct)} runs, {sum(run.cpu_s for run in distinct) / 60:.0f} minutes of processor time, one "
            f"thread each, at commit {commits}, {dates}, on {machines} ({os.cpu_count()} cores).")


if __name__ == "__main__":
    sys.exit(main())
