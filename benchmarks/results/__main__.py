"""Measures what has changed, and writes every table and plot of docs/results/ and the figures of README.md.

    python -m benchmarks.results [NAME ...] [--quick] [--jobs N] [--inputs DIR] [--work DIR] [-o DIR]
    python -m benchmarks.results --render     no measurement: pages and plots of the recorded data, a few seconds
    python -m benchmarks.results --list       runs, their minutes, and the commits of their data

NAME is a run, or a page for all of its runs; by default all runs. A run is left out if its data are of the present
package, so that a stopped command goes on where it was, and all data are of one commit once all runs are made;
`--again` measures anyway. Some runs need checkouts or tables of others, as folders or files of DIR (`--inputs`); they
are named and left out otherwise. With `--jobs 2` runs go on two at a time, the longest first, and those that measure
time one by one afterwards. `--quick` asks whether the recorded figures hold here: it makes shorter runs into
build/results, in less than 30 minutes on a free machine, and build/results/compared.md holds every figure that they
share with the recorded ones to these. Times differ between machines, and so may what a search finds within a time;
counts and means of a short run are over fewer cases.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.provenance import commit, heading, processor, row

from .data import Record, figures_of_both, read_record, read_tables, record_text
from .pages import ROOT, TEMPLATES, with_results, written
from .plots import draw
from .runs import PAGES, RUNS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*RUNS, *PAGES, []])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--inputs", type=Path, default=Path("inputs"), metavar="DIR")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "results-work", metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR")
    options = parser.parse_args()
    output = options.output or ROOT / ("build/results" if options.quick else "docs/results")
    recorded = ROOT / "docs" / "results" / "data"
    data = output / "data"
    data.mkdir(parents=True, exist_ok=True)
    for file in () if options.quick else recorded.glob("*.json"):
        if not (data / file.name).exists():
            shutil.copy(file, data)
    if options.list:
        for name, run in RUNS.items():
            file = data / f"{name}.json"
            told = f"{read_record(file).commit[:24]} of {read_record(file).date}" if file.exists() else "no data"
            print(f"{name:24} {run.minutes:5g} min  {told}")
        print(sources(data))
        return 0
    if not options.render:
        names = [name for asked in options.names or RUNS for name in ([asked] if asked in RUNS else runs_of(asked))]
        measure(list(dict.fromkeys(names)), options, data)
    if options.quick:
        text = compared(recorded, data)
        (output / "compared.md").write_text(text, encoding="utf-8")
        print(text.partition("\n## ")[0] + f"\nin {output / 'compared.md'}")
        return 0
    texts = written(data)
    for name, text in texts.items():
        if name != "readme":
            (output / f"{name}.md").write_text(text, encoding="utf-8")
    draw(data, output / "plots")
    if output.resolve() == recorded.parent.resolve():
        readme = ROOT / "README.md"
        readme.write_text(with_results(readme.read_text(encoding="utf-8"), texts["readme"]), encoding="utf-8")
    print(f"{len(texts) - 1} pages in {output}; {sources(data)}")
    return 0


def runs_of(page: str) -> list[str]:
    """The runs whose data a page shows."""
    text = (TEMPLATES / f"{page}.md.jinja").read_text(encoding="utf-8")
    return [name for name in RUNS if f'"{name}"' in text]


def sources(data: Path) -> str:
    """How many records there are, and of which commits and machines."""
    records = [read_record(file) for file in sorted(data.glob("*.json"))]
    commits, machines = (dict.fromkeys(getattr(record, name) for record in records) for name in ("commit", "machine"))
    return f"{len(records)} records of commit {', '.join(commits)}, on {' and '.join(machines)}"


def compared(recorded: Path, data: Path) -> str:
    """A page that holds the figures of short runs to the recorded ones: their numbers by run, then all that differ."""
    lines, differing = [heading("run", "figures in both", "equal", "within 5 %", "further apart")], list[str]()
    for file in sorted(data.glob("*.json")):
        figures = list(figures_of_both(read_record(recorded / file.name), read_record(file)))
        equal, near = (sum(figure.apart <= most for figure in figures) for most in (0, 0.05))
        lines.append(row(file.stem, len(figures), equal, near - equal, len(figures) - near))
        differing += [row(file.stem, figure.place, figure.recorded, figure.here) for figure in figures if figure.apart]
    return "\n".join(["# Short runs beside the recorded ones", "", *lines, "", "## Figures that differ", "",
                      heading("run", "figure", "recorded", "here"), *differing]) + "\n"


def measure(names: list[str], options: argparse.Namespace, data: Path) -> None:
    """Makes the runs that are not up to date, the longest first; a failed one is told and left out."""
    todo, package = [], commit()
    for name in names:
        run, file = RUNS[name], data / f"{name}.json"
        inputs = {word: options.inputs / word for word in re.findall(r"\{([^}]+)\}", run.command) if word != "WORK"}
        missing = [str(path) for path in inputs.values() if not path.exists()]
        if options.quick and run.quick is None:
            continue
        if missing:
            print(f"{name}: left out, {' and '.join(missing)} missing")
        elif not options.again and file.exists() and read_record(file).commit == package and (
                read_record(file).command == recorded_command(name, options.quick)):
            print(f"{name}: up to date")
        else:
            words = {key: str(path.resolve()) for key, path in inputs.items()} | {"WORK": str(options.work / package)}
            command = re.sub(r"\{([^}]+)\}", lambda word, words=words: words[word[1]], run.command)
            todo.append((name, shlex.split(command) + shlex.split(run.quick or "" if options.quick else "")))
    todo.sort(key=lambda run: -minutes(run[0], options.quick))
    alone = [run for run in todo if RUNS[run[0]].alone]
    others = [run for run in todo if run not in alone]
    single, shared = ([minutes(name, options.quick) for name, _ in runs] for runs in (alone, others))
    print(f"{len(todo)} runs, about {sum(single) + max(sum(shared) / options.jobs, *shared[:1], 0):.0f} minutes")
    (options.work / package).mkdir(parents=True, exist_ok=True)

    def make(name: str, arguments: list[str]) -> None:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tables.md")
            ended = subprocess.run([sys.executable, *arguments, RUNS[name].output, str(file)], cwd=ROOT,
                                   capture_output=True, text=True, check=False,
                                   env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"})
            tables = read_tables(file.read_text(encoding="utf-8")) if file.exists() else []
        if ended.returncode or not any(table.rows for table in tables):
            print(f"{name}: failed\n{ended.stderr[-2000:] or 'no rows: does it need a library?'}", flush=True)
            return
        record = Record(recorded_command(name, options.quick), package, today(),
                        f"{processor()}, {os.cpu_count()} cores, {instructions()}", tables)
        (data / f"{name}.json").write_text(record_text(record), encoding="utf-8")
        print(f"{name}: {(time.perf_counter() - start) / 60:.1f} min", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda run: make(*run), others))
    for run in alone:
        make(*run)


def recorded_command(name: str, quick: bool) -> str:
    """The command of a run as its record has it, without this machine's folders."""
    given = RUNS[name].command + f" {RUNS[name].quick}" * quick
    return "python " + re.sub(r"[{}]", "", given).replace("WORK/", "")


def minutes(name: str, quick: bool) -> float:
    """Processor time of a run."""
    return RUNS[name].quick_minutes if quick else RUNS[name].minutes


def instructions() -> str:
    """The level of instructions that the compiled kernel uses here, such as x86-64-v3 (AVX2) or x86-64-v4 (AVX-512)."""
    from fadiff_mapper.kernel import _kernel
    from fadiff_mapper.kernel.instruction_sets import level_of
    return level_of(_kernel.__file__)


def today() -> str:
    """The day, as in records."""
    return datetime.now(timezone.utc).date().isoformat()


if __name__ == "__main__":
    sys.exit(main())
