"""A run's folder has its files whole or not at all, and one writer at a time."""

from __future__ import annotations

import os
import re
import resource
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base.atomic_files import LOCK_NAME, append_line, check_names, check_writable, lock, write_files
from fadiff_mapper.base.errors import FadiffError

HOLD = """
import sys, time
from pathlib import Path
from fadiff_mapper.base.atomic_files import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes, as on a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def another_run(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the folder's lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


# Writing.

def test_parts_that_a_killed_process_left_are_removed_by_the_next_that_writes_the_file(tmp_path: Path) -> None:
    ended = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    gone = [f".x.{ended}.partial", f".{ended}.probe"]
    kept = [f".other.{ended}.partial", f".x.{os.getpid()}.partial.old", ".x.y.partial", f".x.{os.getppid()}.partial"]
    for name in (*gone, *kept):
        (tmp_path / name).write_text("part")
    write_files(tmp_path, {"x": "1\n"})
    assert sorted(contents(tmp_path)) == sorted(["x", *kept])


def test_the_folder_is_made_and_holds_exactly_the_files(tmp_path: Path) -> None:
    write_files(tmp_path / "a" / "b", {"x.txt": "1\n", "y.json": "{}"})
    assert contents(tmp_path / "a" / "b") == {"x.txt": "1\n", "y.json": "{}"}


def test_files_are_replaced_and_others_left_alone(tmp_path: Path) -> None:
    write_files(tmp_path, {"old": "old", "kept": "kept"})
    write_files(tmp_path, {"old": "new"})
    assert contents(tmp_path) == {"old": "new", "kept": "kept"}


def test_files_have_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write_files(tmp_path, {"ours": ""})
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@given(st.text())
def test_any_text_is_written_as_it_is(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("run")
    write_files(folder, {"file": text})
    assert (folder / "file").read_bytes() == text.encode()


def test_a_file_name_that_is_no_unicode_does_not_stop_the_writing(tmp_path: Path) -> None:
    write_files(tmp_path, {"result.json": '"arch\udcff.yaml"'})
    assert contents(tmp_path) == {"result.json": r'"arch\udcff.yaml"'}


def test_when_the_disk_is_full_nothing_has_changed(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "before", "b": "before"})
    with largest_file(1000), pytest.raises(FadiffError, match=r"/b: cannot be written: File too large"):
        write_files(tmp_path, {"a": "after", "b": "x" * 5000})
    assert contents(tmp_path) == {"a": "before", "b": "before"}


def test_a_folder_in_the_place_of_a_file_is_found_before_anything_is_replaced(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "before"})
    (tmp_path / "b").mkdir()
    with pytest.raises(FadiffError, match=r"/b: cannot be written: Is a directory"):
        write_files(tmp_path, {"a": "after", "b": "after"})
    (tmp_path / "b").rmdir()
    assert contents(tmp_path) == {"a": "before"}


def write_one(folder: Path) -> None:
    write_files(folder, {"a": ""})


def name_and_lock(folder: Path) -> None:
    check_names(folder, ["a"])
    with lock(folder):
        pass


@pytest.mark.parametrize("use", [write_one, check_writable, name_and_lock])
def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path, use: Callable[[Path], None]) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(FadiffError, match=r"out: there is a file where the folder should be"):
        use(tmp_path / "out")
    with pytest.raises(FadiffError, match=r"out/deeper: cannot be written: Not a directory"):
        use(tmp_path / "out" / "deeper")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("use", [write_one, check_writable])
def test_a_folder_without_permission_is_named(tmp_path: Path, use: Callable[[Path], None]) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FadiffError, match="cannot be written: Permission denied"):
        use(tmp_path)
    assert contents(tmp_path) == {}


def make_device(path: Path) -> None:
    """A node of a device that does not exist, for which root's rights are needed."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(240, 7))
    except PermissionError:
        pytest.skip("only root may make devices")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)    # names of sockets are short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


IRREGULAR: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "it is no regular file; accepted: a file"),
    "device": (make_device, "it is no regular file; accepted: a file"),
    "socket": (make_socket, "it is no regular file; accepted: a file"),
    "link to a file": (lambda path: path.symlink_to(__file__), f"it is a link to {__file__}; accepted: the name of"),
    "link to a device": (lambda path: path.symlink_to(os.devnull), "it is a link to /dev/null; accepted: the name of"),
    "link to a folder": (lambda path: path.symlink_to("/tmp"), "it is a link to /tmp; accepted: the name of"),
    "link to nothing": (lambda path: path.symlink_to("nothing"), "it is a link to nothing; accepted: the name of")}

WRITERS: dict[str, Callable[[Path, str], None]] = {
    "write_files": lambda folder, name: write_files(folder, {"first": "1", name: "2"}),
    "append_line": lambda folder, name: append_line(folder / name, b"2") and None,
    "check_names": lambda folder, name: check_names(folder, ["first", name])}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_regular_file_is_not_replaced(writer: str, kind: str, tmp_path: Path) -> None:
    make, reason = IRREGULAR[kind]
    make(tmp_path / "taken")
    before = (tmp_path / "taken").lstat()
    with pytest.raises(FadiffError, match=f"/taken: cannot be written: {re.escape(reason)}"):
        WRITERS[writer](tmp_path, "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert os.path.samestat((tmp_path / "taken").lstat(), before)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_a_lock_that_is_no_regular_file_is_left_alone(kind: str, tmp_path: Path) -> None:
    make, reason = IRREGULAR[kind]
    make(tmp_path / LOCK_NAME)
    with pytest.raises(FadiffError, match=re.escape(reason)), lock(tmp_path):
        pass
    assert (tmp_path / LOCK_NAME).is_symlink() or (tmp_path / LOCK_NAME).exists()


def test_a_link_to_a_folder_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    with lock(tmp_path / "out"):
        check_writable(tmp_path / "out")
        write_files(tmp_path / "out", {"a": "1"})
        write_files(tmp_path / "out" / "deeper", {"b": "2"})
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / "a").read_text() + (tmp_path / "disk" / "deeper" / "b").read_text() == "12"


@pytest.mark.parametrize("use", [write_one, check_writable])
def test_a_link_to_no_folder_is_named(tmp_path: Path, use: Callable[[Path], None]) -> None:
    (tmp_path / "out").symlink_to("nowhere")
    with pytest.raises(FadiffError, match=r"out: there is a link that leads to none where the folder should be"):
        use(tmp_path / "out")
    assert (tmp_path / "out").is_symlink()


def test_a_part_that_another_process_of_our_number_has_left_is_replaced(tmp_path: Path) -> None:
    for left in (lambda path: path.write_text("part"), os.mkfifo, lambda path: path.symlink_to(__file__)):
        left(tmp_path / f".a.{os.getpid()}.partial")
        write_files(tmp_path, {"a": "whole"})
        assert contents(tmp_path) == {"a": "whole"}


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": b"\xff\r\n"})
    assert (tmp_path / "a").read_bytes() == b"\xff\r\n"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/a", "a\0b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FadiffError, match="not the name of a file"):
        write_files(tmp_path, {"good": "", name: ""})
    assert contents(tmp_path) == {}


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match="cannot be written: File name too long"):
        write_files(tmp_path, {"good": "", "x" * 300: ""})
    assert contents(tmp_path) == {}


def test_checking_a_folder_leaves_no_trace_in_it(tmp_path: Path) -> None:
    check_writable(tmp_path / "out")
    assert contents(tmp_path / "out") == {}


# Locking.

def test_a_folder_that_another_run_holds_is_refused_with_its_number(tmp_path: Path) -> None:
    with another_run(tmp_path) as process:  # noqa: SIM117 - the order matters
        with pytest.raises(FadiffError, match=rf"another run writes to .* \(pid {process.pid}\)"), lock(tmp_path):
            pass


def test_a_lock_of_this_process_binds_too(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(FadiffError, match=rf"\(pid {os.getpid()}\)"), lock(tmp_path):
        pass


def test_the_lock_of_a_run_that_died_is_taken_over(tmp_path: Path) -> None:
    with another_run(tmp_path) as process:
        process.kill()
        process.wait()
        assert (tmp_path / LOCK_NAME).read_text() == f"{process.pid}\n"
        with lock(tmp_path):
            assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_a_lock_is_released_at_the_end_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock(tmp_path / "out"):
        raise ZeroDivisionError
    with lock(tmp_path / "out"):
        write_files(tmp_path / "out", {"a": "1"})
    assert contents(tmp_path / "out") == {"a": "1"}


def test_folders_do_not_lock_each_other(tmp_path: Path) -> None:
    with lock(tmp_path / "a"), lock(tmp_path / "b"):
        assert (tmp_path / "a" / LOCK_NAME).exists() and (tmp_path / "b" / LOCK_NAME).exists()
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()


def test_a_run_that_fails_leaves_no_empty_folder(tmp_path: Path) -> None:
    with suppress(RuntimeError), lock(tmp_path / "new"):
        raise RuntimeError
    assert not (tmp_path / "new").exists()
    with lock(tmp_path / "used"):
        write_files(tmp_path / "used", {"a": "b"})
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["a"]
    (tmp_path / "old").mkdir()
    with lock(tmp_path / "old"):
        pass
    assert (tmp_path / "old").exists()
