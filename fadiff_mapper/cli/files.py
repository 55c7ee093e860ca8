"""The commands that read and write files without a search: `check`, `import`, `bundled`, `doctor`, `shim`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from fadiff_mapper.base import atomic_files, bundled_files
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.cli.arguments import DONE, Commands, add_dimensions, add_vary, folder, inputs, load_input, sizes
from fadiff_mapper.search.options import SearchOptions, check_options


def add_check(commands: Commands) -> None:
    parser = commands.add_parser("check", parents=[inputs()], help="read and validate; print what was understood, of a "
                                 "space of designs its parameters and its size")
    add_vary(parser)
    parser.set_defaults(run=check)


def check(options: argparse.Namespace) -> int:
    """Prints all that was understood.

    Returns:
        The exit code: `CHECK_FAILED` where no mapping can meet the constraints.
    """
    from fadiff_mapper import api
    from fadiff_mapper.output.terminal.designs import print_space
    from fadiff_mapper.output.terminal.layers import print_spec
    files, data = api.files_of(options.files), dict(options.variables)
    if options.vary or api.is_space(api.read_document(*files, jinja_data=data)):
        print_space(api.read_space(*files, jinja_data=data, vary=options.vary, strict=not options.lenient))
        return DONE
    return print_spec(load_input(options))


def add_import(commands: Commands) -> None:
    parser = commands.add_parser(
        "import", help="read a network and write it as a network file",
        description="MODEL is an ONNX model, a folder of Timeloop problems with edges.yaml, or a network file. PyTorch "
                    "modules are code, so they come in from Python only: fadiff_mapper.load_network(module, inputs).")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the network file to write (YAML)")
    add_dimensions(parser)
    parser.set_defaults(run=import_network)


def import_network(options: argparse.Namespace) -> None:
    """Reads the network, writes its file whole or not at all, and prints what is in it."""
    from fadiff_mapper import api
    from fadiff_mapper.output.terminal.networks import print_network
    output = Path(options.output)
    atomic_files.check_names(output.parent, [output.name], api.files_of([options.model]))
    network = api.load_network(options.model, **sizes(options))
    atomic_files.write_files(output.parent, {output.name: api.network_text(network)})
    print_network(network, options.output)


def add_bundled(commands: Commands) -> None:
    parser = commands.add_parser("bundled", help="list the designs and workloads that come with this program")
    parser.add_argument("prefix", nargs="?", default="",
                        help="only those whose name begins so, such as layers/resnet18")
    parser.set_defaults(run=bundled)


def bundled(options: argparse.Namespace) -> None:
    """Prints the names, one a line."""
    for name in bundled_files.listing():
        if name.startswith(options.prefix):
            say(bundled_files.PREFIX + name)


def add_doctor(commands: Commands) -> None:
    parser = commands.add_parser("doctor", help="what is installed here and what that enables")
    parser.set_defaults(run=doctor)


def doctor(_: argparse.Namespace) -> None:
    """Prints a line for every program and library that was looked for."""
    from fadiff_mapper.api import examine
    from fadiff_mapper.output.terminal.console import print_findings
    print_findings(examine())


def add_shim(commands: Commands) -> None:
    parser = commands.add_parser("shim", help="write launchers by which unchanged Timeloop scripts run this program")
    parser.add_argument("folder", type=folder, metavar="DIR", help="where they go; put it first on the PATH")
    parser.add_argument("--remove", action="store_true", help="remove them instead")
    parser.add_argument("--seed", type=int, help="seed of every search that the launchers start")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="time limit of every such search")
    parser.set_defaults(run=shim)


def shim(options: argparse.Namespace) -> None:
    """Writes or removes the launchers and prints their names."""
    from fadiff_mapper.api import remove_launchers, write_launchers
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
