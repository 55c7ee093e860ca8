"""Who answers: the real `timeloop-model` on this machine, or in a container."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.errors import FadiffError
from fadiff_mapper.timeloop.find import find_real
from fadiff_mapper.timeloop.run import SHOW_ALL, Answer, run_text

PROGRAM = "timeloop-model"
IMAGE = "timeloopaccelergy/accelergy-timeloop-infrastructure:latest"
ENGINES = ("docker", "podman")

RUN_TIMEOUT = 120.0
"""Seconds that one mapping may take; the slowest seen took 5."""


@dataclass(frozen=True)
class Tool:
    """What answered: `backend` native or container; `version` as its user names it; `digest` of the program's file
    (SHA-256) or of the image."""

    backend: str
    version: str
    digest: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Backend:
    """`ask(text, data spaces, folder)` runs the tool on a literal input in an empty folder."""

    tool: Tool
    ask: Callable[[str, Sequence[str], Path], Answer]


def native(version: str = "", program: str = PROGRAM) -> Backend:
    """The program on the PATH. Raises FadiffError where there is none."""
    found = find_real(program)
    if found is None:
        raise FadiffError(f"there is no {program} on the PATH; accepted: --backend container or recorded")
    digest = hashlib.sha256(found.read_bytes()).hexdigest()

    def ask(text: str, dataspaces: Sequence[str], folder: Path) -> Answer:
        return run_text(text, dataspaces, folder, (str(found),), timeout=RUN_TIMEOUT)

    return Backend(Tool("native", version or "not stated", f"sha256:{digest}"), ask)


def container(image: str = IMAGE, version: str = "", flags: Sequence[str] = ()) -> Backend:
    """The program in an image that is already on this machine, with docker or podman, whichever is there.

    Raises FadiffError where there is no engine or no such image.
    """
    engine = next((path for name in ENGINES if (path := shutil.which(name))), None)
    if engine is None:
        raise FadiffError("there is neither docker nor podman; accepted: --backend native or recorded")
    digest = image_digest(engine, image)

    def ask(text: str, dataspaces: Sequence[str], folder: Path) -> Answer:
        return run_text(text, dataspaces, folder, command(engine, image, folder, flags), timeout=RUN_TIMEOUT)

    return Backend(Tool("container", version or image, digest), ask)


def command(engine: str, image: str, folder: Path, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """`timeloop-model` in a container that sees its run's folder and nothing else."""
    variables = (part for name, value in SHOW_ALL.items() for part in ("--env", f"{name}={value}"))
    return (engine, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--user", f"{os.getuid()}:{os.getgid()}",
            "--volume", f"{folder.resolve()}:/run-folder", "--workdir", "/run-folder", *variables, *flags,
            "--entrypoint", PROGRAM, image)


def image_digest(engine: str, image: str) -> str:
    """The digest of a local image. Raises FadiffError where there is none."""
    done = subprocess.run([engine, "image", "inspect", image], capture_output=True, text=True, check=False, timeout=60)
    try:
        found = json.loads(done.stdout)[0]
        return str((found.get("RepoDigests") or [found["Id"]])[0])
    except (ValueError, LookupError):
        raise FadiffError(f"{engine} has no image {image}: {done.stderr.strip()}; accepted: one that "
                          f"`{Path(engine).name} pull` or `build` has put there") from None
