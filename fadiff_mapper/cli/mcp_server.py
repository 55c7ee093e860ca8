"""A server of the Model Context Protocol: commands as typed tools for language models, within one folder.

Every call is a separate process with a time limit. It reads and writes files only below the folder of the server, and
reads bundled files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Literal

from fadiff_mapper.base.bundled_files import PREFIX, WITHIN
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.program_start import module_path, python_command
from fadiff_mapper.base.run_program import TimeLimitPassed, run
from fadiff_mapper.base.standard_streams import say_error
from fadiff_mapper.base.version import __version__

CODE = "from fadiff_mapper.base.program_start import run_main; sys.exit(run_main('fadiff_mapper.cli'))"
Metric = Literal["edp", "energy", "delay"]
"""The metrics of networks (`METRIC_EXPONENTS` of inputs/spec/spec.py) as a type, which clients of the tools see."""

GRACE = 20.0
"""Seconds beyond its time limit after which a command is killed: writing files takes a few."""


def make_server(folder: Path, most: float) -> Any:
    """The server (an `MCPServer` of the package mcp).

    Args:
        folder: The folder that tools read and write.
        most: Seconds that a call may take, writing of files not counted.
    """
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    root = folder.resolve()
    server = MCPServer("fadiff-mapper", version=__version__, instructions=(
        "Maps DNN layers and networks onto accelerators, in Timeloop's files. Paths are relative to the folder of the "
        "server; bundled:NAME is a design, layer or network that comes along, such as bundled:arch/gemmini_large."))

    def inside(paths: Sequence[str]) -> list[str]:
        for path in paths:
            if not path.startswith(PREFIX) and not (root / path).resolve().is_relative_to(root):
                raise ToolError(f'found "{path}"; accepted: paths below the folder of the server, and {PREFIX}NAME')
        return [path if path.startswith(PREFIX) else f"./{(root / path).resolve().relative_to(root)}" for path in paths]

    def call(words: Sequence[str], seconds: float = most, result: str = "") -> dict[str, Any]:
        """Runs a command; returns its exit code, its printed text, and its JSON result, printed or in a file."""
        try:
            ended = run([*python_command(repr(module_path()), CODE), *words], root,
                        {**os.environ, WITHIN: str(root)}, min(seconds, most) + GRACE)
        except TimeLimitPassed:
            raise ToolError(f"{words[0]} did not end within {min(seconds, most) + GRACE:g} s") from None
        if ended.returncode not in (0, 1):
            raise ToolError(ended.output.strip() or ended.how)
        content = None
        with suppress(OSError, ValueError):
            content = json.loads((root / result).read_text(encoding="utf-8") if result else ended.output)
        return {"exit_code": ended.returncode, "printed": "" if content and not result else ended.output,
                "result": content}

    def search(words: Sequence[str], output: str, seconds: float, result: str) -> dict[str, Any]:
        folder, = inside([output])
        seconds = min(seconds, most)
        return call([*words, "-o", folder, f"--time-limit={seconds:g}"], seconds, f"{folder}/{result}")

    def check(files: list[str]) -> dict[str, Any]:
        """Reads Timeloop files (architecture, problem, constraints, mapping) and prints what was understood."""
        return call(["check", *inside(files)])

    def evaluate(files: list[str]) -> dict[str, Any]:
        """Counts, cycles and energy (pJ) of the mapping in the files, as timeloop-model computes them."""
        return call(["evaluate", *inside(files), "--json"])

    def map_layer(files: list[str], output: str, metric: Metric = "edp",
                  time_limit: float = 30, prove: bool = False) -> dict[str, Any]:
        """Finds the best mapping of a layer on a design and writes Timeloop's files into the folder `output`."""
        return search(["map", *inside(files), f"--metric={metric}", *["--prove"] * prove], output, time_limit,
                      "fadiff.result.json")

    def network(network: str, files: list[str], output: str, metric: Metric = "edp",
                fusion: bool = True, time_limit: float = 60) -> dict[str, Any]:
        """Plans a network on a design: fused groups of layers, their tiles, and all mappings."""
        return search(["network", *inside([network, *files]), f"--metric={metric}", *["--no-fusion"] * (not fusion)],
                      output, time_limit, "fadiff.network.json")

    def design(space: str, networks: list[str], output: str, metrics: list[str] | None = None,
               limits: dict[str, float] | None = None, evaluations: int = 20, time_limit: float = 60) -> dict[str, Any]:
        """Finds the best design of a space for networks, or the Pareto front of two or three metrics."""
        return search(["design", *inside([space, *networks]), f"--evaluations={evaluations}",
                       *(f"--metric={metric}" for metric in metrics or ["edp"]),
                       *(f"--limit={name}={value:g}" for name, value in (limits or {}).items())],
                      output, time_limit, "fadiff.design.json")

    def explain(folder: str) -> dict[str, Any]:
        """Of a folder that `map` wrote: distance from the lower bound, worth of each constant, and access counts."""
        return call(["explain", *inside([folder]), "--json"])

    for tool, name in ((check, "check"), (evaluate, "evaluate"), (map_layer, "map"), (network, "network"),
                       (design, "design"), (explain, "explain")):
        server.add_tool(tool, name)
    return server


def serve(folder: Path, time_limit: float) -> None:
    """Serves on standard input and output until they end, each call at most for the seconds of the time limit.

    Raises FadiffError if there is no such folder, or no time.
    """
    if not 0 < time_limit < inf:
        raise FadiffError(f"time limit: found {time_limit!r}; accepted: seconds greater than 0")
    if not folder.is_dir():
        raise FadiffError(f"{folder}: is no folder; accepted: the folder that tools read and write")
    say_error(f"fadiff-mapper {__version__}: tools read and write below {folder.resolve()}", "")
    make_server(folder, time_limit).run()
