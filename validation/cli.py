"""The command line of `fadiff-validate`: arguments in, exit codes out.

Exit codes: 0 everything agrees, 1 something does not, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fadiff_mapper.base.standard_streams import ended, say_error
from fadiff_mapper.cli.arguments import BITS, NETWORKS, READING, SPACES, Parser, add_arguments, jobs, positive
from fadiff_mapper.cli.commands import BAD_INPUT

from . import commands
from .operators import operators
from .questions import CORNER_COUNT, CORNERS, SUITES
from .ranking import RESAMPLES
from .tools import IMAGE

BACKENDS = ("auto", "native", "container", "recorded")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; errors are printed as lines, never as a traceback.

    Args:
        arguments: The command and its options, by default of this process. Without a command `run` is meant.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given = ["run", *given]
    def run() -> int:
        options = _parser().parse_args(given)
        options.command = shlex.join(["fadiff-validate", *given])
        return _run(options)
    return ended(run, BAD_INPUT)


def _run(options: argparse.Namespace) -> int:
    """Runs the command of the options."""
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        say_error("the answers so far are kept, the same command goes on from here", "")
        raise


def _parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="fadiff-validate", description="Compare the models with the real timeloop-model, mapping by mapping.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    run = subparsers.add_parser("run", parents=[_tool(), _suite()], help="measure and report (without a command: this)")
    run.add_argument("-o", "--output", type=Path, default=Path("fadiff-validation"), metavar="DIR")
    run.add_argument("--recording", type=Path, metavar="FILE", help="what the recorded backend replays")
    run.add_argument("--resamples", type=positive, default=RESAMPLES, metavar="N",
                     help=f"bootstrap samples of each interval (default {RESAMPLES})")
    run.add_argument("--no-fused", action="store_true", help="leave out the fused layers: LoopTree, DeFiNES")
    run.set_defaults(run=commands.run)
    record = subparsers.add_parser("record", parents=[_tool(), _suite()], help="write what a real tool says to a file")
    record.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.jsonl.gz")
    record.set_defaults(run=commands.record)
    mapping = subparsers.add_parser("mapping", parents=[_tool()], help="check one result of fadiff-mapper, or a folder "
                               "of them, and write a certificate")
    mapping.add_argument("folder", type=Path, metavar="DIR")
    mapping.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="default: DIR/certificate.json")
    mapping.set_defaults(run=commands.mapping)
    proof = subparsers.add_parser("certificate", help="check the certificate of a proof (`map --prove --certificate`, "
                                  "`network --certificate`, `design --certificate`)")
    proof.add_argument("certificate", type=Path, metavar="FILE.json")
    proof.add_argument("files", nargs="+", metavar="INPUT",
                       help="the input of the proof, as `map`, `network` or `design` was given it, with the same "
                            "options")
    add_arguments(proof, (*READING, BITS, *NETWORKS, *SPACES))
    proof.set_defaults(run=commands.proof, energy=None)
    return parser


def _tool() -> Parser:
    """Options that choose the tool which answers."""
    parser = Parser(add_help=False)
    parser.add_argument("--backend", choices=BACKENDS, default="auto",
                        help="who answers (default: native where timeloop-model is on the PATH, else recorded)")
    parser.add_argument("--tool-version", default="", metavar="TEXT", help="how to name the tool's version")
    parser.add_argument("--image", default=IMAGE, help=f"image of the container backend (default {IMAGE})")
    parser.add_argument("--container-flag", action="append", default=[], metavar="FLAG",
                        help="one more flag of docker or podman, such as --container-flag=--runtime=runc")
    return parser


def _suite() -> Parser:
    """Options that choose the questions."""
    parser = Parser(add_help=False)
    sizes = "; ".join(f"{name}: {count} random mappings of each kind and {best} of the mapper per operator and design"
                      for name, (count, best) in SUITES.items())
    parser.add_argument("--suite", choices=[*sorted(SUITES), CORNERS],
                        help=f"what a real tool is asked, {sizes}; {CORNERS}: {CORNER_COUNT} mappings on machines of "
                        "their own, built to meet rules that random ones seldom meet (default quick)")
    parser.add_argument("--mappings", type=_whole, metavar="N",
                        help=f"random mappings of each kind instead; mappings in all for {CORNERS}")
    parser.add_argument("--best", type=_whole, metavar="N", help="mappings found by the mapper instead, up to 3")
    parser.add_argument("--seed", type=_whole, metavar="N", help="of the mappings (default 0)")
    parser.add_argument("--design", action="append", default=[], metavar="NAME", help="one bundled design; repeatable")
    parser.add_argument("--operator", action="append", default=[], choices=sorted(operators()), metavar="NAME",
                        help=f"one of {', '.join(operators())}; repeatable")
    parser.add_argument("--jobs", type=jobs, default=os.cpu_count() or 1, metavar="N", help="runs at once")
    parser.add_argument("--cache", type=Path, default=_cache(), metavar="FILE", help="where answers are kept")
    parser.add_argument("--no-tables", action="store_true", help="do not ask Accelergy about the energy tables")
    return parser


def _whole(text: str) -> int:
    """A whole number, 0 included."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: a whole number')
    return int(text)


def _cache() -> Path:
    """The file of answers in the user's cache folder, as the XDG base directory specification places it."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fadiff-mapper" / "validation.jsonl"
