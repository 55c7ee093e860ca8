"""`shim`: launchers named timeloop-mapper and timeloop-model."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.cli.arguments import Commands, folder


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("shim", help="write launchers by which unchanged Timeloop scripts run this program")
    parser.add_argument("folder", type=folder, metavar="DIR", help="where they go; put it first on the PATH")
    parser.add_argument("--remove", action="store_true", help="remove them instead")
    parser.add_argument("--seed", type=int, help="seed of every search that the launchers start")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="time limit of every such search")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Writes or removes the launchers and prints their names."""
    from fadiff_mapper.dropin.shim import remove_launchers, write_launchers
    from fadiff_mapper.search.options import SearchOptions, check_options
    target = Path(options.folder)
    if options.remove:
        for path in remove_launchers(target):
            say(f"removed {path}")
        return
    check_options(SearchOptions(seed=options.seed or 0, time_limit=options.time_limit))
    passed_on = {"--seed": options.seed, "--time-limit": options.time_limit}
    for path in write_launchers(target, [f"{name}={value}" for name, value in passed_on.items() if value is not None]):
        say(f"wrote {path}")
    say(f"now, in the shell: export PATH={shlex.quote(str(target.absolute()))}:\"$PATH\"")
