"""The commands that write files, run in forks of this process, and the reading of what they leave.

A fork of a process that has loaded and compiled all that it needs begins its work at once. Forks have no threads:
libraries are limited to one.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # a fork of a process with threads may hang
sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of the tests are imported as the tests import them

import yaml
from fuzz.doors import EFFORT, TABLES, TWO_LAYERS, native
from fuzz.worker import run

import fadiff_mapper
from fadiff_mapper.base.bundled_files import ROOT
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.yaml.load import load_text

DESIGN = "bundled:arch/gemmini_small"
SEARCH = ("--quiet", *TABLES, *EFFORT)

COMMANDS: dict[str, tuple[str, ...]] = {
    "map": ("fadiff-mapper", "map", "input.yaml", "-o", "out", *SEARCH),
    "map of many": ("fadiff-mapper", "map", DESIGN, "layers", "-o", "out", *SEARCH),
    "network": ("fadiff-mapper", "network", "net.yaml", DESIGN, "-o", "out", "--quiet", *TABLES,
                "--time-limit", "0.5"),
    "design": ("fadiff-mapper", "design", "space.yaml", "net.yaml", "--arch", DESIGN, "-o", "out", "--quiet",
               "--energy", "bundled", "--no-fusion", "--method", "exhaustive", "--jobs", "1"),
    "import": ("fadiff-mapper", "import", "net.yaml", "-o", "out/net.yaml"),
    "shim": ("fadiff-mapper", "shim", "out"),
    "timeloop-mapper": ("launcher", "--time-limit", "0.2", "timeloop-mapper", "input.yaml", "-o", "out"),
    "timeloop-model": ("launcher", "timeloop-model", "input.yaml", "-o", "out"),
}
"""The commands that write, with the program (see `worker.run`) and their words."""

SPACE = """
design_space:
  version: 0.1
  parameters: {bandwidth: {path: DRAM.attributes.shared_bandwidth, values: [4, 8]}}
"""
"""The space of "design": two designs."""

MANY = ("fc_4096_1000.yaml", "fc_4096_4096.yaml")
"""The problems of "map of many"."""

AFRESH = ("timeloop-mapper", "timeloop-model")
"""Those that remove the results of an earlier run before they begin, so that no script takes them for new ones."""

PATIENCE = 300.0
"""Seconds after which a run that should end by itself hangs."""


def prepared(folder: Path, earlier: Path | None) -> None:
    """A folder with the inputs, and with the files of an earlier run."""
    folder.mkdir()
    (folder / "input.yaml").write_text(yaml.safe_dump(native()["input"]))
    (folder / "net.yaml").write_text(TWO_LAYERS)
    (folder / "space.yaml").write_text(SPACE)
    (folder / "layers").mkdir()
    for name in MANY:
        shutil.copy(ROOT / "layers" / "vgg16" / name, folder / "layers")
    shutil.copytree(earlier / "out", folder / "out") if earlier else (folder / "out").mkdir()


def loaded() -> None:
    """Loads all modules, so that no run spends its time on them."""
    native()
    for module in pkgutil.walk_packages(fadiff_mapper.__path__, "fadiff_mapper."):
        if not module.name.endswith(("__main__", "._kernel")):
            importlib.import_module(module.name)


def forked(folder: Path, words: Sequence[str], said: Path | None = None, largest: int | None = None) -> int:
    """Starts a command.

    Args:
        folder: Its working directory.
        words: The program and its words, see `COMMANDS`.
        said: A file for what it prints.
        largest: Bytes beyond which it can write no file.

    Returns:
        The process id of the fork, which leads a group of its own.
    """
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    os.chdir(folder)
    silent = os.open(os.devnull, os.O_RDWR)
    printed = silent if said is None else os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, to in enumerate((silent, printed, printed)):
        os.dup2(to, stream)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    code = 99  # of an exception that left the command
    try:
        code = run(words[0], words[1:])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int) -> bool:
    """Whether the process has ended; it is reaped by `waited` alone."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def waited(pid: int) -> int:
    """The exit code of a process, negative for a signal; one that hangs is killed."""
    deadline = time.monotonic() + PATIENCE
    while not ended(pid) and time.monotonic() < deadline:
        time.sleep(0.002)
    if not ended(pid):
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def unwhole(folder: Path) -> Iterator[tuple[str, str]]:
    """(name, what is wrong with it or "") of the files; hidden ones are locks and parts that no reader looks at.

    Entries of a store are named by their keys, as each process writes to a file of its own. A last line without an end
    is no entry: the process was killed as it wrote.
    """
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not any(part.startswith(".") for part in Path(name).parts):
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".jsonl":
                for line in text[:text.rfind("\n") + 1].splitlines():
                    yield f"{path.parent.name}/{json.loads(line)['key']}", ""
                continue
            try:
                if path.suffix == ".json":
                    json.loads(text)
                elif path.suffix == ".yaml":
                    load_text(text, path.name)
                yield name, "" if text.endswith("\n") else "ends within a line"
            except (ValueError, FadiffError) as error:
                yield name, str(error)


@dataclass
class Figures:
    """Outcomes of the runs of one command.

    Attributes:
        runs: Number of them.
        done: Runs that ended well.
        declined: Runs that ended with the line that says why they could not write.
        read: Files that were read.
        lost: Files that were half-written or missing, and runs that ended otherwise.
    """

    runs: int
    done: int = 0
    declined: int = 0
    read: int = 0
    lost: list[str] = field(default_factory=list)

    def look(self, folder: Path, expected: Iterable[str], when: str) -> None:
        """Reads all files of a folder and notes those that are not whole or are missing."""
        files = dict(unwhole(folder))
        self.read += len(files)
        self.lost += [f"{when}: {name}: {wrong}" for name, wrong in files.items() if wrong]
        self.lost += [f"{when}: {name} is missing" for name in sorted(set(expected) - files.keys())]


def parts(folder: Path) -> list[str]:
    """Parts of files, which a killed run leaves beside their destinations."""
    return [path.name for path in folder.rglob(".*") if path.suffix in (".partial", ".probe")]
