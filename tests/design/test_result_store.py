"""The store of evaluated layers and plans: whole entries only, from any number of writers."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.result_store import ResultStore

KEY = "ab" + "0" * 62


OTHER = KEY[:-1] + "1"


def written(folder: Path, writer: int) -> None:
    store = ResultStore(folder)
    for number in range(200):
        store.put(f"ab{number:062x}", {"writer": writer, "text": "x" * 5000})


WRITER = """
import resource, sys
from pathlib import Path
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.result_store import ResultStore
store, room = ResultStore(Path(sys.argv[1])), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
try:
    for number in range(100_000):
        store.put(f"ab{number:062x}", {"text": "x" * 20_000})
        print(number, flush=True)
except FadiffError as error:
    print(error, file=sys.stderr)
"""
"""Writes entries into the folder of its first argument, and prints the number of each once it is written.

Its file has room for as many bytes as the second argument says: then the system refuses to write, as on a full disk.
"""


def writer(folder: Path, room: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(room)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def entries(folder: Path, count: int) -> list[object]:
    store = ResultStore(folder)
    found: list[object] = [store.get(f"ab{number:062x}") for number in range(count)]
    assert not store.changed
    return found


@pytest.mark.parametrize("after", [1, 20, 200])
def test_a_writer_that_is_killed_leaves_all_that_it_has_written(after: int, tmp_path: Path) -> None:
    with writer(tmp_path, 2 ** 40) as process:
        assert process.stdout
        for _ in range(after):
            process.stdout.readline()
        process.kill()
        written = after + len(process.stdout.readlines())
    assert entries(tmp_path, written) == [{"text": "x" * 20_000}] * written
    ResultStore(tmp_path).put(KEY, {"energy_pj": 1.0})
    assert ResultStore(tmp_path).get(KEY) == {"energy_pj": 1.0}


def test_a_writer_without_room_ends_with_a_message_and_leaves_all_that_it_has_written(tmp_path: Path) -> None:
    with writer(tmp_path, 1_000_000) as process:
        numbers, message = process.communicate()
    written = len(numbers.splitlines())
    assert "cannot be written: File too large" in message and process.returncode == 0
    assert entries(tmp_path, written + 1) == [{"text": "x" * 20_000}] * written + [None]
    file, = tmp_path.iterdir()
    assert file.read_bytes().endswith(b"\n")


def test_what_was_put_is_got_with_every_bit_of_its_numbers(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    store.put(KEY, {"energy_pj": math.pi * 1e17, "mapping": [{"target": "DRAM"}]})
    assert ResultStore(tmp_path / "store").get(KEY) == {"energy_pj": math.pi * 1e17, "mapping": [{"target": "DRAM"}]}
    assert store.get("cd" + KEY[2:]) is None


def test_several_writers_of_the_same_entries_leave_whole_ones(tmp_path: Path) -> None:
    reader = ResultStore(tmp_path)
    assert reader.get(KEY) is None
    with ProcessPoolExecutor(3) as pool:
        list(pool.map(written, [tmp_path] * 3, range(3)))
    assert len(list(tmp_path.iterdir())) == 3  # nothing half-written is left beside them
    found = [reader.get(f"ab{number:062x}") for number in range(200)]
    assert all(entry and len(entry["text"]) == 5000 for entry in found) and not reader.changed


def test_entries_that_another_process_adds_are_found(tmp_path: Path) -> None:
    reader, writer = ResultStore(tmp_path), ResultStore(tmp_path)
    for number, key in enumerate((KEY, OTHER)):
        assert reader.get(key) is None
        writer.put(key, {"number": number})
        assert reader.get(key) == {"number": number}


def test_a_line_without_its_end_is_on_its_way_and_no_change(tmp_path: Path) -> None:
    writer = ResultStore(tmp_path)
    writer.put(KEY, {"energy_pj": 1.0})
    writer.put(OTHER, {"energy_pj": 2.0})
    file = next(tmp_path.iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    store = ResultStore(tmp_path)
    assert (store.get(KEY), store.get(OTHER)) == ({"energy_pj": 1.0}, None) and not store.changed
    file.write_bytes(whole)
    assert store.get(OTHER) == {"energy_pj": 2.0}


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\x80\x04}q\x00.", b"[" * 100_000])
def test_a_line_that_is_no_entry_counts_as_missing(content: bytes, tmp_path: Path) -> None:
    ResultStore(tmp_path).put(KEY, {"energy_pj": 1.0})
    file = next(tmp_path.iterdir())
    file.write_bytes(content + b"\n")
    store = ResultStore(tmp_path)
    assert store.get(KEY) is None
    assert list(store.changed) == [f"{file}, line 1"]
    store.put(KEY, {"energy_pj": 2.0})
    assert store.get(KEY) == ResultStore(tmp_path).get(KEY) == {"energy_pj": 2.0}


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to("/dev/zero")
    (tmp_path / "folder.jsonl").mkdir()
    store = ResultStore(tmp_path)
    assert store.get(KEY) is None and not store.changed


def test_a_full_disk_leaves_the_entries_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, real = ResultStore(tmp_path), os.write
    store.put(KEY, {"energy_pj": 1.0})
    before = store.own.read_bytes()

    def full(descriptor: int, data: memoryview) -> int:
        if len(data) < 60:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:50])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FadiffError, match="No space left on device"):
        store.put(OTHER, {"energy_pj": 2.0})
    monkeypatch.undo()
    assert store.own.read_bytes() == before
    store.put(OTHER, {"energy_pj": 2.0})
    assert ResultStore(tmp_path).get(OTHER) == {"energy_pj": 2.0}


def changed_number(text: str) -> str:
    return text.replace("3.5", "2.5")


def without_digest(text: str) -> str:
    content = json.loads(text)
    return json.dumps({"key": content["key"], "entry": content["entry"]}) + "\n"


def more_beside(text: str) -> str:
    content = json.loads(text)
    content["entry"]["status"] = "certain"
    return json.dumps(content) + "\n"


def under_the_key_of_another(text: str) -> str:
    return text.replace(KEY, OTHER)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("edited", [changed_number, without_digest, more_beside, under_the_key_of_another])
def test_an_entry_that_was_edited_counts_as_missing_and_is_named(edited: Callable[[str], str], late: bool,
                                                                 tmp_path: Path) -> None:
    """`late`: edited after the store has read the file."""
    ResultStore(tmp_path).put(KEY, {"energy_pj": 3.5, "cycles": math.inf, "mapping": [{"target": "DRAM"}]})
    file, store = next(tmp_path.iterdir()), ResultStore(tmp_path)
    if late:
        assert store.get(KEY) is not None
    file.write_text(edited(file.read_text()))
    assert store.get(KEY) is None and store.get(OTHER) is None
    assert next(iter(store.changed)) == (f"{file}, byte 0" if late else f"{file}, line 1")


def test_a_key_without_an_entry_is_no_change(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    assert store.get(KEY) is None
    assert not store.changed


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named_before_the_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FadiffError, match="cannot be written"):
        ResultStore(tmp_path / "store").opened().__enter__()


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(FadiffError, match="there is a file where the folder should be"):
        ResultStore(tmp_path / "store").opened().__enter__()


def test_a_new_folder_that_stays_empty_is_removed_and_any_other_is_not(tmp_path: Path) -> None:
    folder, store = tmp_path / "store", ResultStore(tmp_path / "store")
    with store.opened():
        assert folder.is_dir()
    assert not folder.exists()
    with store.opened():
        store.put(KEY, {})
    assert store.get(KEY) == {}
    (tmp_path / "empty").mkdir()
    with ResultStore(tmp_path / "empty").opened():
        pass
    assert (tmp_path / "empty").is_dir()
