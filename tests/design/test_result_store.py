"""The store of evaluated layers and plans: whole entries only, from any number of writers."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.result_store import ResultStore

KEY = "ab" + "0" * 62


def written(folder: Path, writer: int) -> None:
    for number in range(200):
        ResultStore(folder).put(f"ab{number:062x}", {"writer": writer, "text": "x" * 5000})


def test_what_was_put_is_got_with_every_bit_of_its_numbers(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    store.put(KEY, {"energy_pj": math.pi * 1e17, "mapping": [{"target": "DRAM"}]})
    assert ResultStore(tmp_path / "store").get(KEY) == {"energy_pj": math.pi * 1e17, "mapping": [{"target": "DRAM"}]}
    assert store.get("cd" + KEY[2:]) is None


def test_several_writers_of_the_same_entries_leave_whole_ones(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as pool:
        list(pool.map(written, [tmp_path] * 3, range(3)))
    files = sorted(tmp_path.rglob("*"))
    assert len([file for file in files if file.is_file()]) == 200  # nothing half-written is left beside them
    assert all(len(json.loads(file.read_text())["entry"]["text"]) == 5000 for file in files if file.is_file())


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\x80\x04}q\x00.", b"[" * 100_000])
def test_a_file_that_is_no_entry_counts_as_missing(content: bytes, tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.put(KEY, {"energy_pj": 1.0})
    file = next(tmp_path.rglob("*.json"))
    file.write_bytes(content)
    assert store.get(KEY) is None
    assert list(store.changed) == [file]
    store.put(KEY, {"energy_pj": 2.0})
    assert store.get(KEY) == {"energy_pj": 2.0}


def changed_number(text: str) -> str:
    return text.replace("3.5", "2.5")


def without_digest(text: str) -> str:
    return json.dumps(json.loads(text)["entry"]) + "\n"


def more_beside(text: str) -> str:
    content = json.loads(text)
    content["entry"]["status"] = "certain"
    return json.dumps(content) + "\n"


@pytest.mark.parametrize("edited", [changed_number, without_digest, more_beside])
def test_an_entry_that_was_edited_counts_as_missing_and_is_named(edited: Callable[[str], str], tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.put(KEY, {"energy_pj": 3.5, "cycles": math.inf, "mapping": [{"target": "DRAM"}]})
    assert store.get(KEY) is not None
    file = next(tmp_path.rglob("*.json"))
    file.write_text(edited(file.read_text()))
    assert store.get(KEY) is None
    assert list(store.changed) == [file]


def test_an_entry_under_the_name_of_another_counts_as_missing(tmp_path: Path) -> None:
    store, other = ResultStore(tmp_path), KEY[:-1] + "1"
    store.put(KEY, {"energy_pj": 3.5})
    store.put(other, {"energy_pj": 2.5})
    shutil.copyfile(tmp_path / "ab" / f"{other}.json", tmp_path / "ab" / f"{KEY}.json")
    assert store.get(KEY) is None
    assert store.get(other) == {"energy_pj": 2.5}
    assert list(store.changed) == [tmp_path / "ab" / f"{KEY}.json"]


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
