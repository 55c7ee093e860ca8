"""Workers: which of them evaluates a design, and which of them dies, changes nothing."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_spaces import SECTION, small_question

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design import layer_entries
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.executors import executor
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.question import DesignWorkers


@pytest.mark.slow
def test_two_processes_find_what_one_finds_in_the_order_of_the_points(tmp_path: Path) -> None:
    bench = DesignBench(small_question(tmp_path), None)
    points = list(all_points(bench.question.space))[:6]
    with executor(bench, DesignWorkers(jobs=2)) as evaluated:
        found = list(evaluated(points, []))
    assert found == [evaluate_design(bench, point) for point in points]


@pytest.mark.slow
def test_a_killed_worker_of_a_cluster_loses_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    bench = DesignBench(small_question(tmp_path), tmp_path / "store")
    points = list(all_points(bench.question.space))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                                  silence_logs="CRITICAL") as cluster:
        victim = next(iter(cluster.workers.values())).pid
        with executor(bench, DesignWorkers(backend="dask", address=cluster.scheduler_address)) as evaluated:
            outcomes = evaluated(points, [])
            found = [next(outcomes)]
            os.kill(victim, signal.SIGKILL)
            found += outcomes
    assert found == [evaluate_design(bench, point) for point in points]
    assert len(found) == 12


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no safe path")
def test_a_cluster_of_this_machine_takes_no_module_from_the_working_folder(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    bench = DesignBench(small_question(tmp_path), tmp_path / "store")
    for name in ("multiprocessing", "pickle", "socket", "tornado"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n")
    monkeypatch.chdir(tmp_path)
    with executor(bench, DesignWorkers(backend="dask")) as evaluated:
        assert list(evaluated([(0, 0)], [])) == [evaluate_design(bench, (0, 0))]
    assert not (tmp_path / "ran").exists()
    assert "PYTHONSAFEPATH" not in os.environ


@pytest.mark.slow
def test_a_killed_worker_of_a_ray_cluster_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    depths = list(range(512, 4096, 128))    # many designs, so that the workers are busy when one of them is killed
    section = SECTION.replace("[512, 1024, 4096, 16384]", str(depths))
    bench = DesignBench(small_question(tmp_path, section), tmp_path / "store")
    points = list(all_points(bench.question.space))
    with executor(bench, DesignWorkers(jobs=2, backend="ray")) as evaluated:
        outcomes = evaluated(points, [])
        found = [next(outcomes)]
        os.kill(min(pid for pid in ray_workers()), signal.SIGKILL)
        found += outcomes
    assert found == [evaluate_design(bench, point) for point in points]


def ray_workers() -> list[int]:
    """Processes of this machine in which a task of the designs is at work: Ray names them by its function."""
    return [int(process.name) for process in Path("/proc").glob("[0-9]*")
            if status_of(process).get("command", "").startswith("ray::_answers")]


def test_no_design_is_begun_after_the_end_of_a_round(tmp_path: Path) -> None:
    bench = DesignBench(small_question(tmp_path), None)
    with executor(bench, DesignWorkers(jobs=1)) as evaluated:
        assert list(evaluated([(0, 0), (0, 1)], [], time.time() - 1)) == [None, None]
        first, other = evaluated([(0, 0), (0, 1)], [], time.time() - 1, first_kept=True)
    assert first is not None and first.feasible and first.cut_short
    assert first.edp >= evaluate_design(bench, (0, 0)).edp
    assert other is None


@pytest.mark.parametrize("first_kept", [False, True])
def test_designs_that_are_being_mapped_at_the_end_of_a_round_are_given_up(
        first_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = layer_entries.search_all

    def late(*given: Any, **settings: Any) -> Any:
        outcomes = real(*given, **settings)
        time.sleep(max(0.0, end - time.time()) + 0.01)
        return outcomes

    monkeypatch.setattr(layer_entries, "search_all", late)
    bench = DesignBench(small_question(tmp_path), tmp_path / "store")
    end = time.time() + 0.3
    with executor(bench, DesignWorkers(jobs=1)) as evaluated:
        found = list(evaluated([(0, 0), (0, 1)], [], end, first_kept))
    assert [each is None for each in found] == [not first_kept, True]
    stored = [file.read_text() for file in tmp_path.glob("store/*.jsonl")]
    assert not any("mapping" in entry for entry in stored)  # a later run is to search these layers to the end


@pytest.mark.slow
def test_plans_of_the_best_design_come_from_its_worker(tmp_path: Path) -> None:
    question = small_question(tmp_path, fuse=True)
    bench = DesignBench(question, tmp_path / "store")
    points = list(all_points(question.space))[-2:]
    with executor(bench, DesignWorkers(jobs=2)) as evaluated:
        best = min(evaluated(points, []), key=lambda outcome: outcome.edp)
    assert bench.planned == best.point
    kept, = bench.networks_at(best.point)
    again, = DesignBench(question, tmp_path / "store").networks_at(best.point)
    assert kept == replace(bench.plans[0], bound=kept.bound) and kept.bound == again.bound is not None
    assert (kept.stats, kept.unfused_stats, kept.groups) == (again.stats, again.unfused_stats, again.groups)


@pytest.mark.parametrize(("settings", "message"), [
    ({"backend": "slurm"}, "backend: found 'slurm'; accepted: processes, dask, ray"),
    ({"address": "tcp://host:8786"}, "address: found 'tcp://host:8786' with the backend processes"),
    ({"backend": "dask", "jobs": 4, "address": "tcp://host:8786"}, "jobs: found 4 with the address tcp://host:8786"),
])
def test_workers_that_cannot_be_had_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FadiffError, match=message):
        DesignWorkers(**settings).check()


def test_a_backend_that_is_not_installed_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(FadiffError, match=r'pip install "fadiff-mapper\[dask\]"'), \
            executor(DesignBench(small_question(tmp_path), None), DesignWorkers(backend="dask")):
        pass


def test_a_task_carries_the_question_and_nothing_that_was_read(tmp_path: Path) -> None:
    bench = DesignBench(small_question(tmp_path), tmp_path)
    evaluate_design(bench, (0, 0))
    assert bench.reader.readings
    assert len(pickle.dumps(bench)) == len(pickle.dumps(DesignBench(bench.question, tmp_path)))
    assert pickle.loads(pickle.dumps(bench)) == bench


def test_a_worker_unpacks_the_bench_of_a_run_once(tmp_path: Path) -> None:
    tasks = [pickle.dumps(DesignBench(small_question(tmp_path), tmp_path)) for _ in range(2)]
    first, second = map(pickle.loads, tasks)
    assert first is second
    assert first == DesignBench(small_question(tmp_path), tmp_path)


@pytest.mark.slow
def test_workers_leave_an_interruption_to_the_run(tmp_path: Path) -> None:
    bench, before = DesignBench(small_question(tmp_path), None), signal.getsignal(signal.SIGINT)
    with executor(bench, DesignWorkers(jobs=2)) as evaluated:
        list(evaluated([(0, 0), (0, 1)], []))
        ignored = [int(fields["SigIgn"], 16) for fields in map(status_of, Path("/proc").glob("[0-9]*"))
                   if fields.get("PPid") == str(os.getpid()) and "worker_processes" in fields["command"]]
    assert len(ignored) >= 2
    assert all(signals >> signal.SIGINT - 1 & 1 for signals in ignored)
    assert signal.getsignal(signal.SIGINT) is before


def status_of(process: Path) -> dict[str, str]:
    """What Linux tells of a process, with its command; empty for one that has ended."""
    try:
        lines = (process / "status").read_text().splitlines()
        return {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines} | {
            "command": (process / "cmdline").read_text()}
    except OSError:
        return {}
