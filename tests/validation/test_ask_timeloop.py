"""Asking real Timeloop, played by scripts: what it does wrong is seen, and what it did right is asked only once."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from functools import cache
from pathlib import Path

import pytest
from fadiff_validation import tools
from fadiff_validation.asking import Answered, ask_all
from fadiff_validation.commands import cleared
from fadiff_validation.questions import Question, random_questions
from fadiff_validation.store import Store
from fadiff_validation.tasks import bundled_tasks
from fadiff_validation.tools import Backend, Tool, command, container, native

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.timeloop.run_model import STATS, XML, ModelAnswer, run_text

RECORDED = Path(__file__).parents[1] / "recorded" / "designs"
GIVE = f"gzip -dc {RECORDED}/gemmini_small.stats.txt.gz > {STATS}; " \
       f"gzip -dc {RECORDED}/gemmini_small.map+stats.xml.gz > {XML}"


@cache
def questions(count: int = 3) -> tuple[Question, ...]:
    task, = bundled_tasks(["gemmini_small"], ["pointwise"])
    return tuple(question for question in random_questions(task, count, 0) if question.kind == "any")


def script(folder: Path, text: str) -> str:
    path = folder / "timeloop-model"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def played(folder: Path, text: str, timeout: float = 20.0) -> Backend:
    """A backend whose program is a shell script; every run adds a line to `log`."""
    path = script(folder, f"pwd >> {folder}/log; {text}")
    return Backend(Tool("native", "played", path), lambda asked, spaces, where: run_text(
        asked, spaces, where, (path,), timeout=timeout))


def asked(folder: Path, text: str, *, store: str = "store", jobs: int = 1, timeout: float = 20.0) -> list[Answered]:
    return ask_all(questions(), played(folder, text, timeout), Store(folder / store), jobs)


def runs(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def test_every_run_has_a_folder_of_its_own_which_is_gone_afterwards(tmp_path: Path) -> None:
    answers = asked(tmp_path, GIVE, jobs=3)
    assert [item.failure for item in answers] == ["", "", ""]
    assert [item.question for item in answers] == list(questions())
    assert len(set(runs(tmp_path))) == 3 and not any(map(os.path.exists, runs(tmp_path)))


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    first, second = asked(tmp_path, GIVE), asked(tmp_path, GIVE)
    assert len(runs(tmp_path)) == 3
    assert [item.answer for item in first] == [item.answer for item in second]


def test_a_run_that_was_killed_while_it_wrote_goes_on_where_it_was(tmp_path: Path) -> None:
    asked(tmp_path, GIVE)
    whole = (tmp_path / "store").read_bytes()
    (tmp_path / "store").write_bytes(whole[:-100])
    answers = asked(tmp_path, GIVE)
    assert len(runs(tmp_path)) == 4 and all(item.answer for item in answers)
    assert len(Store(tmp_path / "store")._answers) == 3


def test_another_program_is_asked_again(tmp_path: Path) -> None:
    asked(tmp_path, GIVE)
    (tmp_path / "other").mkdir()
    ask_all(questions(), played(tmp_path / "other", GIVE), Store(tmp_path / "store"), 1)
    assert len(runs(tmp_path / "other")) == 3


@pytest.mark.parametrize("text, said", [
    ("exit 0", "left no such file"),
    (f"{GIVE}; head -c 3000 {STATS} > half; mv half {STATS}", "cut off"),
    ("kill -SEGV $$", "SIGSEGV"),
    ("exit 3", "exit code 3"),
])
def test_a_failure_is_reported_and_stops_no_other(text: str, said: str, tmp_path: Path) -> None:
    answers = asked(tmp_path, f"[ $(wc -l < {tmp_path}/log) = 2 ] && {{ {text}; exit; }}; {GIVE}")
    assert [bool(item.answer) for item in answers] == [True, False, True]
    assert said in answers[1].failure and len(runs(tmp_path)) == 3


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    assert not any(item.answer for item in asked(tmp_path, "exit 0"))
    assert all(item.answer for item in asked(tmp_path, GIVE))


def test_a_rejection_is_an_answer(tmp_path: Path) -> None:
    reason = "ERROR: couldn't map level Scratchpad: too small"
    answers = asked(tmp_path, f'echo "{reason}" >&2; exit 1')
    assert {item.answer.error for item in answers if item.answer} == {reason} and not any(
        item.failure for item in answers)


def test_a_run_that_was_killed_from_outside_is_tried_once_more(tmp_path: Path) -> None:
    answers = asked(tmp_path, f"[ $(wc -l < {tmp_path}/log) = 1 ] && kill -KILL $$; {GIVE}")
    assert all(item.answer for item in answers) and len(runs(tmp_path)) == 4
    (tmp_path / "log").unlink()
    answers = asked(tmp_path, "kill -KILL $$", store="other")
    assert all("SIGKILL" in item.failure for item in answers) and len(runs(tmp_path)) == 6


def test_one_that_hangs_is_ended_in_time(tmp_path: Path) -> None:
    start = time.monotonic()
    answers = asked(tmp_path, "sleep 60 & wait", jobs=3, timeout=0.5)
    assert all("did not end within 0.5 s" in item.failure for item in answers)
    assert time.monotonic() - start < 10 and len(runs(tmp_path)) == 3


def test_switches_of_timeloop_are_cleared_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMELOOP_ENABLE_FIRST_READ_ELISION", "0")
    asked(tmp_path, f"env | grep TIMELOOP_ > {tmp_path}/seen; {GIVE}")
    assert (tmp_path / "seen").read_text() == "TIMELOOP_HIDE_INCONSEQUENTIAL_STATS=0\n"
    assert cleared() == {"TIMELOOP_ENABLE_FIRST_READ_ELISION": "0"}


def test_many_threads_may_add_to_one_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    answer = asked(tmp_path, GIVE, store="other")[0].answer
    assert answer is not None
    threads = [threading.Thread(target=store.add, args=(str(i), answer)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = Store(tmp_path / "store")
    assert all(again.get(str(i)) == answer for i in range(40))


def test_a_program_or_an_engine_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FadiffError, match="no timeloop-model on the PATH"):
        native()
    with pytest.raises(FadiffError, match="neither docker nor podman"):
        container()


def test_the_container_sees_its_folder_and_nothing_else(tmp_path: Path) -> None:
    found = list(command("docker", "image:1", tmp_path))
    for pair in (["--network", "none"], ["--cap-drop", "ALL"], ["--user", f"{os.getuid()}:{os.getgid()}"]):
        assert found[found.index(pair[0]):][:2] == pair
    assert "--read-only" in found and found.count("--volume") == 1
    assert found[-6:] == ["--entrypoint", "timeout", "image:1", "--kill-after=5", "600", "timeloop-model"]


@pytest.mark.parametrize("engines, has_image, chosen", [
    (("docker", "podman"), "podman", "podman"), (("docker", "podman"), "docker", "docker"), (("podman",), "", None)])
def test_the_engine_that_has_the_image_is_taken(engines: tuple[str, ...], has_image: str, chosen: str | None,
                                                tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("docker", "podman"):
        answer = """echo '[{"Id": "sha256:1"}]'""" if name == has_image else "echo no daemon >&2; exit 1"
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755 if name in engines else 0o644)
    if chosen:
        assert container("image").tool.digest == "sha256:1"
    else:
        with pytest.raises(FadiffError, match=r"no image image \(.*podman: no daemon"):
            container("image")


def test_an_answer_that_cannot_be_kept_is_a_failure(tmp_path: Path) -> None:
    store = Store(tmp_path / "gone" / "answers.jsonl")
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(FadiffError, match=r"answers\.jsonl: answers cannot be kept: No such file"):
        store.add("key", ModelAnswer(None, "rejected"))


@pytest.mark.parametrize("script, reason", [
    ("sleep 60", "no answer within 0.2 s"), ("echo '[7]'", "no answer"), ("exit 0", "no answer")])
def test_an_engine_that_hangs_or_talks_nonsense_has_no_image(script: str, reason: str, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(tools, "START_TIMEOUT", 0.2)
    monkeypatch.setattr(tools, "ENGINES", ("docker",))
    (tmp_path / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "docker").chmod(0o755)
    with pytest.raises(FadiffError, match=f"docker: {reason}"):
        container("image")


def test_podman_keeps_the_users_number_unless_it_runs_as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert "--userns" in command("/usr/bin/podman", "image", tmp_path)
    assert "--userns" not in command("/usr/bin/docker", "image", tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "--userns" not in command("/usr/bin/podman", "image", tmp_path)
