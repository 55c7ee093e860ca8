"""`doctor` names what is installed, each thing once."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest
from accelergy_stand_ins import stand_in

from fadiff_mapper.timeloop.doctor import LIBRARIES, examine


def test_every_library_that_the_package_requires_is_looked_for() -> None:
    setup = ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg")
    lines = setup["options"]["install_requires"] + "".join(setup["options.extras_require"][name]
                                                           for name in ("gradient", "onnx", "plot"))
    assert {line.split()[0] for line in lines.splitlines() if line} <= LIBRARIES.keys()


def test_nothing_is_named_twice_and_what_is_required_is_found() -> None:
    found = {finding.name: finding.found for finding in examine()}
    assert len(found) == len(examine())
    assert found["numpy"] and found["scipy"] and found["python"]


def test_programs_are_named_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> dict[str, str | None]:
        return {finding.name: finding.found for finding in examine()}

    program = stand_in(tmp_path, "")
    podman = tmp_path / "podman"
    podman.write_text("#!/bin/sh\n")
    podman.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = look()
    assert str(found["accelergy"]).startswith(program) and found["podman"] == str(podman)
    assert found["docker"] is None and found["timeloop-model"] is None
    monkeypatch.setenv("PATH", "")
    assert look()["accelergy"] is None
