"""`network`: map a whole network and decide which layers to fuse."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fadiff_mapper.cli.arguments import Commands, add_options, add_verify, folder, inputs, positive, read_options
from fadiff_mapper.cli.map import INTERRUPTED

if TYPE_CHECKING:
    from fadiff_mapper.results.mapped_network import MappedNetwork

CHECKPOINT = "fadiff.checkpoint.json"
"""The mappings found so far, in the output folder: a run that was killed goes on from there."""


def add(commands: Commands) -> None:
    """Describe the command."""
    net = argparse.ArgumentParser(add_help=False)
    net.add_argument("network", metavar="NET", help="a network file, an ONNX model, a folder of problems with "
                     "edges.yaml, or bundled:networks/NAME")
    parser = commands.add_parser("network", parents=[net, inputs()],
                                 help="map every layer of a network and fuse layers where that helps")
    parser.add_argument("-o", "--output", required=True, type=folder, metavar="DIR", help="folder for the results")
    parser.add_argument("--metric", choices=("edp", "energy", "delay"), default="edp", help="of the whole network")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same answer (default 0)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop with the best so far")
    parser.add_argument("--no-fusion", action="store_true", help="every layer by itself")
    parser.add_argument("--dim", dest="dims", action="append", default=[], metavar="NAME=N",
                        help="a number for a named dimension of an ONNX model's inputs, such as batch=1")
    parser.add_argument("--jobs", type=positive, metavar="N", help="threads (default: all cores)")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    add_options(parser, "longest=4 or model=paper; the names are the fields of NetworkOptions")
    add_verify(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Map the network and write its plan. 1 where a mapping is to be verified and real Timeloop disagrees."""
    from fadiff_mapper.base import atomic_files
    from fadiff_mapper.base.interrupt import interruptible
    from fadiff_mapper.cli.import_ import dimension
    from fadiff_mapper.inputs.load import read_document
    from fadiff_mapper.inputs.load_layers import files_of
    from fadiff_mapper.network.layers.options import NetworkOptions
    from fadiff_mapper.output.network_report.network_files import network_files
    from fadiff_mapper.output.terminal.network_plan import print_plan, progress
    from fadiff_mapper.timeloop.verify import real_model
    from fadiff_mapper.workload.readers.load_network import load_network
    program = real_model() if options.verify else None
    search = read_options(options.option, NetworkOptions(
        options.metric, not options.no_fusion, options.seed, options.time_limit, threads=options.jobs))
    network = load_network(options.network, dims=dict(map(dimension, options.dims)))
    design = read_document(*files_of(options.files), jinja_data=dict(options.variables))
    root = Path(options.output)
    with atomic_files.lock(root), interruptible() as stopped, progress(quiet=options.quiet) as on_progress:
        from fadiff_mapper.network.map_network import map_network
        atomic_files.check_writable(root)
        result = map_network(
            network, design, search, energy=options.energy, checkpoint_file=root / CHECKPOINT,
            on_progress=on_progress, stopped=stopped)
        for name, files in network_files(result).items():
            atomic_files.write_files(root / name, files)
    if not options.quiet:
        print_plan(result, options.output)
    disagreed = program is not None and _verified(result, program)
    return INTERRUPTED if stopped() else int(disagreed)


def _verified(result: MappedNetwork, program: Path) -> bool:
    """Whether real Timeloop disagrees with a layer or a tile; every one of them is run."""
    from fadiff_mapper.output.terminal.verdict import print_verdict
    from fadiff_mapper.timeloop.verify import verify
    mapped = [(outcome.nodes[0], outcome.spec, outcome.mapping, outcome.stats) for outcome in result.layers]
    mapped += [(f"{tile.node} (tile)", tile.spec, tile.mapping, tile.stats)
               for group in result.groups for tile in group.tiles]
    verdicts = [print_verdict(verify(spec, mapping, stats, program), name) for name, spec, mapping, stats in mapped]
    return any(verdicts)
