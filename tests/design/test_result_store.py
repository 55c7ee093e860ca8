"""The store of evaluated layers and plans: whole entries only, from any number of writers."""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.evaluation.result_store import ResultStore

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
    next(tmp_path.rglob("*.json")).write_bytes(content)
    assert store.get(KEY) is None
    store.put(KEY, {"energy_pj": 2.0})
    assert store.get(KEY) == {"energy_pj": 2.0}


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
