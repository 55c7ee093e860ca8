"""The tools that answer: the real `timeloop-model` on this machine, or in a container."""

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
"""Programs that run containers, in order of preference."""

RUN_TIMEOUT = 600.0
"""Seconds that one mapping may take: half a second on most, minutes where windows slide over long loops."""

START_TIMEOUT = 60.0
"""Seconds that an engine may take to start and remove a container: a plain limit; nothing was measured."""


@dataclass(frozen=True)
class Tool:
    """The identity of a tool.

    Attributes:
        backend: "native" or "container".
        version: As its user names it.
        digest: SHA-256 of the program's file, or the image's digest.
    """

    backend: str
    version: str
    digest: str

    def as_dict(self) -> dict[str, Any]:
        """The identity as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Backend:
    """A tool that can be asked.

    Attributes:
        tool: Its identity.
        ask: `ask(text, data spaces, folder)` runs it on a literal input in an empty folder; raises FadiffError.
    """

    tool: Tool
    ask: Callable[[str, Sequence[str], Path], ModelAnswer]


def native(version: str = "", program: str = PROGRAM) -> Backend:
    """The program on the PATH.

    Args:
        version: How to name its version; the program does not tell.
        program: Name of the program.

    Raises:
        FadiffError: There is no such program.
    """
    path = find_real(program)
    if path is None:
        raise FadiffError(f"there is no {program} on the PATH; accepted: --backend container or recorded")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def ask(text: str, dataspaces: Sequence[str], folder: Path) -> ModelAnswer:
        return run_text(text, dataspaces, folder, (str(path),), timeout=RUN_TIMEOUT)

    return Backend(Tool("native", version or "not stated", f"sha256:{digest}"), ask)


def container(image: str = IMAGE, version: str = "", flags: Sequence[str] = ()) -> Backend:
    """The program in an image that is already on this machine, run by docker or podman, whichever is there.

    Args:
        image: Name of the image.
        version: How to name its version; the image's name by default.
        flags: Further flags for the engine.

    Raises:
        FadiffError: There is no engine, or no engine has the image.
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
    """The command line that runs `timeloop-model` in a container with access to its run's folder and nothing else.

    The time limit is kept inside, too, because ending the engine's command need not end the container. A podman that
    does not run as root maps its user to another one outside unless `keep-id` forbids that.

    Args:
        engine: Path of docker or podman.
        image: Name of the image.
        folder: The run's folder.
        flags: Further flags for the engine.
    """
    variables = (part for name, value in SHOW_ALL.items() for part in ("--env", f"{name}={value}"))
    user = ("--userns", "keep-id") if Path(engine).name == "podman" and os.getuid() else ()
    return (engine, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--user", f"{os.getuid()}:{os.getgid()}", *user,
            "--volume", f"{folder.resolve()}:/run-folder", "--workdir", "/run-folder", *variables, *flags,
            "--entrypoint", "timeout", image, "--kill-after=5", f"{RUN_TIMEOUT:g}", PROGRAM)


def _with_image(engines: Sequence[str], image: str) -> tuple[str, str]:
    """(the first engine that answers and has the image, the image's digest). Raises FadiffError where none has it."""
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
            description = json.loads(done.stdout)[0]
            return engine, str((description.get("RepoDigests") or [description["Id"]])[0])
        except (ValueError, LookupError, TypeError, AttributeError):
            reasons.append(f"{name}: {done.stderr.strip() or 'no answer'}")
    raise FadiffError(f"there is no image {image} ({'; '.join(reasons)}); accepted: one that `docker pull` or `podman "
                      "build` has put there")
