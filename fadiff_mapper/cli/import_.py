"""`import`: a network from another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from fadiff_mapper.cli.arguments import Commands, add_dimensions


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser(
        "import", help="read a network and write it as a network file",
        description="MODEL is an ONNX model, a folder of Timeloop problems with edges.yaml, or a network file. PyTorch "
                    "modules are code, so they come in from Python only: fadiff_mapper.load_network(module, inputs).")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the network file to write (YAML)")
    add_dimensions(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Reads the network, writes its file whole or not at all, and prints what is in it."""
    from fadiff_mapper.base import atomic_files
    from fadiff_mapper.inputs.load_layers import files_of
    from fadiff_mapper.output.print_network import print_network
    from fadiff_mapper.workload.readers.load_network import load_network
    from fadiff_mapper.workload.readers.network_text import network_text
    output = Path(options.output)
    atomic_files.check_names(output.parent, [output.name], files_of([options.model]))
    network = load_network(options.model, dims=dict(options.dims), shapes=dict(options.shapes),
                           values=dict(options.values), busy_experts=options.busy_experts)
    atomic_files.write_files(output.parent, {output.name: network_text(network)})
    print_network(network, options.output)
