"""`import`: a network from another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from fadiff_mapper.cli.arguments import Commands, positive


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "import", help="read a network and write it as a network file",
        description="MODEL is an ONNX model, a folder of Timeloop problems with edges.yaml, or a network file. PyTorch "
                    "modules are code, so they come in from Python only: fadiff_mapper.load_network(module, inputs).")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the network file to write (YAML)")
    parser.add_argument("--dim", dest="dims", action="append", default=[], type=dimension, metavar="NAME=N",
                        help="a number for a named dimension of an ONNX model's inputs, such as batch=1")
    parser.set_defaults(run=run)


def dimension(text: str) -> tuple[str, int]:
    """NAME=N."""
    name, sign, value = text.rpartition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: NAME=N')
    return name, positive(value)


def run(options: argparse.Namespace) -> None:
    """Read the network, write its file whole or not at all, print what is in it."""
    from fadiff_mapper.base import atomic_files
    from fadiff_mapper.output.terminal.network_summary import print_network
    from fadiff_mapper.workload.readers.load_network import load_network
    from fadiff_mapper.workload.readers.write_network import network_text
    network = load_network(options.model, dims=dict(options.dims))
    output = Path(options.output)
    atomic_files.write_files(output.parent, {output.name: network_text(network)})
    print_network(network, options.output)
