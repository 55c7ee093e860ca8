#!/usr/bin/env python3
"""100,000 designs of one layer over four workers of a cluster, one of them killed on the way: what is lost, what twice?

    python benchmarks/design_scale.py [--backend dask|ray|processes] [--designs N] [-o FILE]
    python benchmarks/design_scale.py --many [-o FILE]   what 1,000 workers would make of the same designs

The space is that of `gemmini_large` with finer steps, the layer one of ResNet-18. The method `exhaustive` maps every
design or proves that it is no better than a known one. After a third of the designs a worker gets SIGKILL. The first
table counts outcomes and entries of the store; equal hashes of all outcomes are equal answers. The second has CPU
seconds by process. With `--many` the cost of a design comes from the recorded runs. The cost of a task in the program
and in the scheduler is measured with empty tasks, that of the store with the lines of many workers.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from provenance import Write, add_output, heading, markdown, row

from benchmarks.results.data import read_record
from fadiff_mapper import load_network, read_space
from fadiff_mapper.design import executors
from fadiff_mapper.design.question import BACKENDS, DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.result import DesignResult
from fadiff_mapper.design.result_store import FORM, ResultStore
from fadiff_mapper.design.search_design import DesignProgress, search_design

WORKERS = 4
ROUND = 1000  # designs proposed at a time
EMPTY = 2000  # tasks that do nothing

MANY = 1000  # workers, which have all designs in one round
RECORDS = Path(__file__).parents[1] / "docs" / "results" / "data"
MAPPED = 360.0
"""CPU ms to map a design with the 12 layers of ResNet-18, as in `design_speed`."""

LAYER = """
workload:
  version: 1
  name: conv3x3_64_64_56_s1
  inputs: {input: [1, 64, 56, 56]}
  shapes: [{id: conv, op: conv, count: 1, repeat: 1, dims: {N: 1, M: 64, C: 64, P: 56, Q: 56, R: 3, S: 3}}]
  graph: [{name: conv, shape: conv, from: [input]}]
"""


def finer(designs: int) -> dict[str, list[int]]:
    """The values of `gemmini_large`'s space in finer steps: 1,000 designs for each size of the scratchpad."""
    return {"side": [8, 16, 32, 64, 128], "scratchpad_kb": list(range(16, 16 * designs // 1000 + 1, 16)),
            "accumulator_kb": list(range(8, 321, 8)), "dram_bandwidth": [2, 4, 8, 16, 32]}


@dataclass(frozen=True)
class Spent:
    """CPU seconds by process."""

    program: float
    workers: float
    others: float  # of the scheduler, where it is a process of its own

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.program - other.program, self.workers - other.workers, self.others - other.others)


WORKER = re.compile(r"ray::|spawn_main|worker_processes")
"""What the commands of workers have in them: of Ray, of Dask, of this machine's processes."""


def descendants() -> dict[int, str]:
    """All processes below this one, with their commands."""
    parents, commands = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    found, below = {}, {os.getpid()}
    while below:
        below = {number for number, parent in parents.items() if parent in below}
        found |= {number: commands[number] for number in below if number in commands}
    return found


def cpu_seconds(process: int) -> tuple[float, float]:
    """CPU seconds so far of a process, and of those that have ended below it; 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    own, own_system, ended, ended_system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return own + own_system, ended + ended_system


def spent() -> Spent:
    """CPU seconds so far of this process and of all below it; those that have ended count as workers."""
    processes = {number: command for number, command in descendants().items() if number != os.getpid()}
    seconds = {number: cpu_seconds(number) for number in processes}
    alive = sum(seconds[number][0] for number, command in processes.items() if WORKER.search(command))
    return Spent(time.process_time(), alive + sum(ended for _, ended in [*seconds.values(), cpu_seconds(os.getpid())]),
                 sum(own for own, _ in seconds.values()) - alive)


@contextmanager
def cluster_of(backend: str) -> Iterator[str | None]:
    """A cluster of four workers on this machine; its address if it has one."""
    with ExitStack() as stack:
        if backend == "dask":
            import distributed
            yield stack.enter_context(distributed.LocalCluster(
                n_workers=WORKERS, threads_per_worker=1, dashboard_address=None)).scheduler_address
        else:
            if backend == "ray":
                import ray
                os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  Ray's name; its workers would give way to all else
                ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
                stack.callback(ray.shutdown)
            yield None


@dataclass(frozen=True)
class Enumeration:
    """A whole run."""

    result: DesignResult
    spent: Spent
    wall_s: float
    lines: int  # of the store
    entries: int  # of the store, each counted once


def enumerated(question: DesignQuestion, backend: str, store: Path) -> Enumeration:
    """Enumerates all designs, and kills a worker after a third of them."""
    def kill(progress: DesignProgress) -> None:
        done = progress.evaluations + progress.pruned + progress.refused
        if done == question.space.size // 3:
            os.kill(max((number for number, command in descendants().items() if WORKER.search(command)),
                        key=cpu_seconds), signal.SIGKILL)

    with cluster_of(backend) as address:
        start, before = time.monotonic(), spent()
        result = search_design(question, DesignWorkers(None if address else WORKERS, backend, address, store),
                               on_progress=kill)
        wall, after = time.monotonic() - start, spent()
    keys = Counter(FORM.fullmatch(line)["key"] for file in store.glob("*.jsonl")
                   for line in file.read_bytes().splitlines(keepends=True))
    return Enumeration(result, after - before, wall, keys.total(), len(keys))


def ms_of_a_task(backend: str) -> float:
    """CPU ms of an empty task in the program and in the processes of the scheduler."""
    with cluster_of(backend) as address, (executors._dask if backend == "dask" else executors._ray)(
            WORKERS, address) as cluster:
        def sent(number: int) -> None:
            for future in [cluster.submit(abs, [(1,)]) for _ in range(number)]:
                cluster.result(future)

        sent(WORKERS)
        before = spent()
        sent(EMPTY)
        taken = spent() - before
    return 1000 * (taken.program + taken.others) / EMPTY


def ms_of_an_entry(folder: Path) -> float:
    """CPU ms to read an entry of the store that another worker wrote."""
    ResultStore(folder).opened().__enter__()
    for _ in range(MANY):
        store = ResultStore(folder)
        for _ in range(10):
            store.put(os.urandom(32).hex(), {"proven": {"energy_pj": 1e9, "cycles": 1e6, "root_edp": 1e7}})
    start = time.process_time()
    ResultStore(folder).get("0" * 64)
    return 1000 * (time.process_time() - start) / (10 * MANY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="dask", choices=BACKENDS)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--designs", type=int, default=100_000, help="a multiple of 1,000")
    add_output(parser)
    options = parser.parse_args()
    if options.many:
        with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
            write_many(ms_of_an_entry(Path(folder)), write)
        return
    space, values = read_space("bundled:spaces/gemmini_large"), finer(options.designs)
    space = replace(space, parameters=tuple(replace(each, values=values[each.name]) for each in space.parameters))
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        layer = Path(folder, "layer.yaml")
        layer.write_text(LAYER, encoding="utf-8")
        exhaustive = DesignOptions(fuse=False, method="exhaustive", per_round=ROUND, neighbours=False)
        run = enumerated(DesignQuestion(space, (load_network(layer),), (1.0,), exhaustive), options.backend,
                         Path(folder, "store"))
        write_tables(options.backend, space.size, run, write)


def write_tables(backend: str, size: int, run: Enumeration, write: Write) -> None:
    """Writes counts and costs."""
    outcomes, name = run.result.outcomes, backend.capitalize()
    figures = [(each.point, each.energy_pj, each.cycles, each.bounds) for each in outcomes]
    write("## Counts\n\n" + heading("workers", "designs", "outcomes", "different designs", "mapped", "proved worse",
                                    "entries of the store", "computed twice", "hash of all outcomes"))
    write(row(f"{WORKERS} of {name}, one killed", f"{size:,}", f"{len(outcomes):,}",
              f"{len({outcome.point for outcome in outcomes}):,}", f"{sum(each.mapped for each in outcomes):,}",
              f"{sum(each.pruned for each in outcomes):,}", f"{run.entries:,}", run.lines - run.entries,
              f"`{hashlib.sha256(repr(figures).encode()).hexdigest()[:12]}`"))
    write("\n## Costs\n\n" + heading("workers", "minutes", "CPU ms a design in workers", "in the program",
                                     "in other processes"))
    write(row(f"{WORKERS} of {name}", f"{run.wall_s / 60:.1f}", *(f"{1000 * seconds / size:.2f}" for seconds in (
        run.spent.workers, run.spent.program, run.spent.others))))


def write_many(entry_ms: float, write: Write) -> None:
    """Writes what many workers would make of the recorded runs, at the recorded cost of a design and at `MAPPED`."""
    write(heading("cluster", "CPU ms of a design in a worker", "its seconds", "of them, reading the store",
                  "CPU ms of a task", "tasks", "seconds of the scheduler", "CPU ms of an outcome",
                  "seconds of the program", f"times as fast as {WORKERS} workers"))
    for backend in BACKENDS[1:]:
        if not (file := RECORDS / f"designs_on_{backend}.json").exists():
            continue
        counts, costs = read_record(file).tables[:2]
        size, entries = (int(counts.column(name)[0].replace(",", "")) for name in ("designs", "entries of the store"))
        each, outcome = (float(costs.column(name)[0]) for name in ("CPU ms a design in workers", "in the program"))
        task, tasks = ms_of_a_task(backend), size // max(1, size // (executors.TASKS * MANY))
        scheduler, program, reading = tasks * task / 1000, size * outcome / 1000, entries * entry_ms / 1000
        for cost in (each, MAPPED):
            worker = size * cost / MANY / 1000 + reading
            faster = max(size * cost / WORKERS / 1000, program) / max(worker, scheduler, program)
            write(row(backend.capitalize(), f"{cost:.1f}", f"{worker:.1f}", f"{reading:.2f}", f"{task:.2f}",
                      f"{tasks:,}", f"{scheduler:.1f}", f"{outcome:.2f}", f"{program:.1f}", f"{faster:.0f}"))


if __name__ == "__main__":
    main()
