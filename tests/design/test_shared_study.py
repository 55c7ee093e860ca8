"""One search by several processes: every design once, nothing lost when one of them is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from small_spaces import NETWORK, small_network, small_question, small_space

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.design.proposers import BLACK_BOX, OptunaDesigns
from fadiff_mapper.design.question import DesignWorkers
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.design.shared_study import StudyJournal, open_study

optuna = pytest.importorskip("optuna")

SECTION = """\
design_space:
  version: 0.1
  parameters:
    columns: {path: PEColumns.spatial.meshX, range: [2, 16], step: 2}
    depth: {path: Scratchpad.attributes.depth, range: [512, 16384], step: 512}
"""

COMMAND = """\
import sys
from fadiff_mapper import DesignOptions, DesignWorkers, read_space, search_design
method, evaluations = sys.argv[1:]
result = search_design(read_space("bundled:arch/gemmini_small", "space.yaml"), "two_layers.yaml", DesignOptions(
    fuse=False, method=method, evaluations=int(evaluations), prune=False, neighbours=False), workers=DesignWorkers(
    jobs=1, store="store", study="ours"))
print(*(outcome.point for outcome in result.outcomes if outcome.mapped), sep=";")
"""


def started(folder: Path, method: str, evaluations: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", COMMAND, method, str(evaluations)], cwd=folder, text=True,
                            stdout=subprocess.PIPE)


def told(folder: Path) -> list[tuple[int, ...]]:
    """The designs that the study says are mapped, in the order of their trials."""
    files = optuna.storages.journal
    storage = optuna.storages.JournalStorage(StudyJournal(folder / "store/ours.study",
                                                          files.JournalFileSymlinkLock(str(folder / "other"))))
    (name,) = optuna.get_all_study_names(storage)
    trials = optuna.load_study(study_name=name, storage=storage).get_trials()
    return [tuple(trial.params.values()) for trial in trials if trial.user_attrs.get("mapped")]


def test_the_lock_of_a_killed_process_is_seen_to_be_old_in_a_relative_store(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("store").mkdir()
    study, _ = open_study(optuna, Path("store/ours.study"), small_question(tmp_path), "tpe")
    lock = study._storage._backend.lock
    lock.acquire()  # whose process is killed
    assert Path("store/ours.study.lock").stat().st_mtime == Path("store/ours.study").stat().st_mtime
    lock.release()


@pytest.mark.parametrize("method", ["tpe", "nsga2"])
def test_of_two_processes_one_is_killed_and_nothing_is_lost_or_twice(method: str, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(SECTION)
    (tmp_path / "two_layers.yaml").write_text(NETWORK)
    study = tmp_path / "store/ours.study"
    killed, survivor = (started(tmp_path, method, 40) for _ in range(2))
    while len(list(study.parent.glob("*.jsonl"))) < 2 or study.read_text().count('"mapped"') < 10:
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    before = set(told(tmp_path))
    points = [tuple(json.loads(f"[{text.strip()[1:-1]}]")) for text in survivor.communicate(timeout=120)[0].split(";")]
    assert survivor.returncode == 0
    assert len(points) == len(set(points)) == 40
    assert before <= set(points) == set(told(tmp_path))
    third = started(tmp_path, method, 50)  # a later process continues
    more = third.communicate(timeout=120)[0].split(";")
    assert third.returncode == 0 and len(set(more)) == 50
    assert len(list((tmp_path / "store").glob("*.jsonl"))) == 3
    writers = Counter(key for file in (tmp_path / "store").glob("*.jsonl")
                      for key in {json.loads(line)["key"] for line in file.read_text().splitlines()})
    assert set(writers.values()) == {1}  # no layer of a design was mapped by two processes


def test_one_process_with_a_study_answers_as_without(tmp_path: Path) -> None:
    question = small_question(tmp_path, SECTION, metrics=("energy", "delay"), method="tpe", evaluations=20)
    alone, shared = (search_design(question, DesignWorkers(1, store=tmp_path / "store", study=study))
                     for study in (None, "ours"))
    assert list(alone.outcomes) == list(shared.outcomes)


def test_a_design_under_evaluation_elsewhere_is_not_proposed(tmp_path: Path) -> None:
    question = small_question(tmp_path)
    file = tmp_path / "ours.study"
    first, second = (BLACK_BOX["tpe"](question, file) for _ in range(2))
    assert isinstance(first, OptunaDesigns) and isinstance(second, OptunaDesigns)
    mine, yours = first.propose(8, []), second.propose(8, [])
    assert len(mine) == 8 and sorted(mine + yours) == sorted({*mine, *yours})
    assert len(yours) == question.space.size - 8
    first.learn(DesignOutcome(mine[0], {}, True, "", 1.0, 1.0, 1.0, mapped=True))
    assert second.mapped_by_others([]) == [mine[0]]
    first.leave()
    second.leave()
    assert len(BLACK_BOX["tpe"](question, file).propose(12, [])) == question.space.size - 1


def command(folder: Path, *flags: str) -> int:
    """The exit code of a command with the question of `small_question`, in the study of that folder."""
    small_network(folder)
    return main(["design", str(folder / "space.yaml"), str(folder / "two_layers.yaml"), "--arch",
                 "bundled:arch/gemmini_small", "--no-fusion", "--method", "tpe", "--jobs", "1", *flags,
                 "--store", str(folder), "--study", "ours", "-o", str(folder / "out")])


@pytest.mark.parametrize("flags", [["--metric", "delay"], ["--seed", "1"], ["--limit", "area_mm2=3"],
                                   ["--method", "nsga2"], ["--weights", "2"], []])
def test_a_study_of_another_question_is_refused(flags: list[str], tmp_path: Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    """Without flags of another space."""
    BLACK_BOX["tpe"](small_question(tmp_path), tmp_path / "ours.study")
    if not flags:
        small_space(tmp_path, SECTION)
    before = (tmp_path / "ours.study").read_bytes()
    assert command(tmp_path, *flags) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "ours.study: holds a search of another space" in error
    assert (tmp_path / "ours.study").read_bytes() == before


def test_a_study_of_the_same_question_is_taken_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BLACK_BOX["tpe"](small_question(tmp_path), tmp_path / "ours.study")
    assert command(tmp_path) == 0
    assert "12 designs, 12 proposed" in capsys.readouterr().out


@pytest.mark.parametrize(("method", "store", "message"), [
    ("random", Path("store"), "study: found with the method random"), ("tpe", None, "study: found no store")])
def test_options_without_a_study_are_refused(method: str, store: Path | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match=message):
        search_design(small_question(tmp_path, method=method), DesignWorkers(store=store, study="ours"))


class NoLock:
    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def test_half_a_line_is_not_read_and_goes_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "ours.study"
    journal, reader = StudyJournal(file, NoLock()), StudyJournal(file, NoLock())
    assert list(reader.read_logs(0)) == []
    journal.append_logs([{"number": 0}, {"number": 1}])
    with file.open("a") as half:
        half.write('{"num')
    assert list(reader.read_logs(0)) == [{"number": 0}, {"number": 1}]
    assert list(reader.read_logs(2)) == []
    journal.append_logs([{"number": 2}])
    assert list(reader.read_logs(2)) == [{"number": 2}]
    assert list(StudyJournal(file, NoLock()).read_logs(0)) == [{"number": number} for number in range(3)]


@pytest.mark.parametrize("content", ["{\n", "[]\n", "{}\n", "\x00\n", "1\n"])
def test_a_damaged_study_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "ours.study").write_text(content)
    with pytest.raises(FadiffError, match=r"ours\.study.*damaged"):
        BLACK_BOX["tpe"](small_question(tmp_path), tmp_path / "ours.study")
