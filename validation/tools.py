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

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.timeloop.find_programs import find_real
from fadiff_mapper.timeloop.run_model import SHOW_ALL, ModelAnswer, run_text

PROGRAM = "timeloop-model"
IMAGE = "timeloopaccelergy/accelergy-timeloop-infrastructure:latest"
ENGINES = ("docker", "podman")

RUN_TIMEOUT = 600.0
"""Seconds that one mapping may take: half a second on most, minutes where windows slide over long loops."""

START_TIMEOUT = 60.0
"""Seconds that an engine may take to start and remove a container."""


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
    ask: Callable[[str, Sequence[str], Path], ModelAnswer]


def native(version: str = "", program: str = PROGRAM) -> Backend:
    """The program on the PATH. Raises FadiffError where there is none."""
    found = find_real(program)
    if found is None:
        raise FadiffError(f"there is no {program} on the PATH; accepted: --backend container or recorded")
    digest = hashlib.sha256(found.read_bytes()).hexdigest()

    def ask(text: str, dataspaces: Sequence[str], folder: Path) -> ModelAnswer:
        return run_text(text, dataspaces, folder, (str(found),), timeout=RUN_TIMEOUT)

    return Backend(Tool("native", version or "not stated", f"sha256:{digest}"), ask)


def container(image: str = IMAGE, version: str = "", flags: Sequence[str] = ()) -> Backend:
    """The program in an image that is already on this machine, with docker or podman, whichever is there.

    Raises FadiffError where there is no engine or no such image.
    """
    engines = [path for name in ENGINES if (path := shutil.which(name))]
    if not engines:
        raise FadiffError("there is neither docker nor podman; accepted: --backend native or recorded")
    engine, digest = _with_image(engines, image)

    def ask(text: str, dataspaces: Sequence[str], folder: Path) -> ModelAnswer:
        return run_text(text, dataspaces, folder, command(engine, image, folder, flags),
                        timeout=RUN_TIMEOUT + START_TIMEOUT)

    return Backend(Tool("container", version or image, digest), ask)


def command(engine: str, image: str, folder: Path, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """`timeloop-model` in a container that sees its run's folder and nothing else.

    Its time limit is kept inside, too: ending the engine's command need not end the container. A podman that does not
    run as root maps its user to another one outside unless it is told to keep it.
    """
    variables = (part for name, value in SHOW_ALL.items() for part in ("--env", f"{name}={value}"))
    user = ("--userns", "keep-id") if Path(engine).name == "podman" and os.getuid() else ()
    return (engine, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--user", f"{os.getuid()}:{os.getgid()}", *user,
            "--volume", f"{folder.resolve()}:/run-folder", "--workdir", "/run-folder", *variables, *flags,
            "--entrypoint", "timeout", image, "--kill-after=5", f"{RUN_TIMEOUT:g}", PROGRAM)


def _with_image(engines: Sequence[str], image: str) -> tuple[str, str]:
    """The first engine that answers and has an image, and the image's digest. Raises FadiffError where none does."""
    reasons = []
    for engine in engines:
        name = Path(engine).name
        try:
            done = subprocess.run([engine, "image", "inspect", image], capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL, timeout=START_TIMEOUT)
        except OSError as error:
            reasons.append(f"{name}: {error.strerror}")
            continue
        except subprocess.TimeoutExpired:
            reasons.append(f"{name}: no answer within {START_TIMEOUT:g} s")
            continue
        try:
            found = json.loads(done.stdout)[0]
            return engine, str((found.get("RepoDigests") or [found["Id"]])[0])
        except (ValueError, LookupError, TypeError, AttributeError):
            reasons.append(f"{name}: {done.stderr.strip() or 'no answer'}")
    raise FadiffError(f"there is no image {image} ({'; '.join(reasons)}); accepted: one that `docker pull` or `podman "
                      "build` has put there")
