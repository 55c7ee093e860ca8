"""`quickstart` makes a folder whose printed commands work, and replaces nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fadiff_mapper.cli import main


@pytest.mark.slow
def test_the_commands_that_are_printed_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quickstart", str(tmp_path / "first")]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    monkeypatch.chdir(tmp_path / "first")
    commands = [words[1:] for words in printed if words[0] == "fadiff-mapper"]
    assert len(commands) == 4
    for words in commands:
        assert main(words) == 0, words
    said = capsys.readouterr()
    assert said.err == ""
    assert "first + second + third" in said.out and "EDP is the best possible" in said.out


def test_files_that_are_there_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "layer.yaml").write_text("mine")
    assert main(["quickstart", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/layer.yaml: is there already; accepted: a new folder\n"
    assert [path.name for path in tmp_path.iterdir()] == ["layer.yaml"]
