"""The end of the time for some work: a moment, Ctrl-C, a grace, and input that takes too long to read."""

from __future__ import annotations

import os
import signal
import time

import pytest

from fadiff_mapper.base import deadline
from fadiff_mapper.base.deadline import at_latest, in_time, interruptible, never, reading_in_time, with_grace
from fadiff_mapper.base.errors import OutOfTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds, as a list of one number that a test may change."""
    now = [100.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now[0])
    return now


def test_work_ends_at_a_moment_or_before(clock: list[float]) -> None:
    over = at_latest(105.0, never)
    assert not over()
    clock[0] = 105.1
    assert over()
    assert at_latest(200.0, lambda: True)()


def test_work_with_grace_goes_on_for_a_second_after_its_moment(clock: list[float]) -> None:
    over = with_grace(105.0, never)
    for clock[0], expected in ((104.0, False), (105.9, False), (106.1, True)):
        assert over() == expected


def test_work_with_grace_goes_on_for_a_second_after_an_interruption(clock: list[float]) -> None:
    stopped = [False]
    over = with_grace(1000.0, lambda: stopped[0])
    assert not over()
    stopped[0] = True
    assert not over(), "the second begins when the interruption is seen"
    for clock[0], expected in ((100.9, False), (101.1, True)):
        assert over() == expected


def test_a_loop_ends_before_the_item_that_comes_too_late() -> None:
    done: list[int] = []
    with pytest.raises(OutOfTime):
        for item in in_time(range(5), lambda: len(done) == 3):
            done.append(item)
    assert done == [0, 1, 2]


def test_a_first_ctrl_c_is_remembered_and_a_second_one_ends_the_program() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible() as came:
        assert not came()
        os.kill(os.getpid(), signal.SIGINT)
        assert came()
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_ctrl_c_that_leaves_no_result_ends_the_program() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        os.kill(os.getpid(), signal.SIGINT)
        raise OutOfTime("no mapping was found in time")
    with pytest.raises(OutOfTime), interruptible():
        raise OutOfTime("no mapping was found in time")


def test_reading_is_given_up_when_the_command_must_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "LATE", 0.0)
    monkeypatch.setattr(deadline, "LATE_SHARE", 0.0)
    begun = time.monotonic()
    with pytest.raises(OutOfTime, match="out of time before the input was read"), reading_in_time(begun, 0.05):
        time.sleep(30)
    assert time.monotonic() - begun < 10
    with reading_in_time(begun, None):
        time.sleep(0.06)
