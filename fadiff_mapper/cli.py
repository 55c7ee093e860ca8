"""The command line: arguments in, exit codes out. 0 done, 1 a check failed, 2 bad input, 130 interrupted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fadiff_mapper.errors import FadiffError

if TYPE_CHECKING:
    from fadiff_mapper.inputs import Spec

BUNDLED = "bundled:"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors are printed as lines, never as a traceback."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except FadiffError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:  # such as a full disk under the cache of compiled code
        print(f"error: {error.filename or 'standard output'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except (MemoryError, RecursionError) as error:
        print(f"error: the input is too large for this machine: {type(error).__name__}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fadiff-mapper", description="Read Timeloop's files, evaluate mappings exactly, find good ones.",
        epilog=f"FILES are Timeloop YAML files of either dialect, in any order; {BUNDLED}NAME is one that comes with "
               "this program (see: fadiff-mapper bundled).")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    inputs = argparse.ArgumentParser(add_help=False)
    inputs.add_argument("files", nargs="+", metavar="FILES")
    inputs.add_argument("-D", dest="variables", action="append", default=[], type=_variable, metavar="NAME=VALUE",
                        help="a variable of the files' Jinja2 templates")
    inputs.add_argument("--built-in-energies", action="store_true",
                        help="where the ERT lacks an action, take Timeloop's built-in value as Timeloop does")

    check = commands.add_parser("check", parents=[inputs], help="read and validate; print what was understood")
    check.set_defaults(run=_check)

    evaluate = commands.add_parser("evaluate", parents=[inputs],
                                   help="what timeloop-model computes for the mapping in the input")
    evaluate.add_argument("--json", action="store_true", help="all numbers as JSON")
    evaluate.set_defaults(run=_evaluate)

    mapper = commands.add_parser("map", parents=[inputs],
                                 help="find a good mapping and write it as timeloop-mapper does")
    mapper.add_argument("-o", "--output", required=True, type=_folder, metavar="DIR", help="folder for the results")
    mapper.add_argument("--metric", action="append", metavar="NAME",
                        help="edp, energy, delay or last_level_accesses; repeat it for further priorities")
    mapper.add_argument("--seed", type=int, default=0, help="same seed, same answer (default 0)")
    mapper.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop with the best so far")
    mapper.add_argument("--restarts", type=_positive, help="descents side by side")
    mapper.add_argument("--steps", type=_positive, help="steps of each descent")
    mapper.add_argument("--jobs", type=_positive, metavar="N", help="threads (default: all cores)")
    mapper.add_argument("--no-gradient", action="store_true", help="start the refinement from random mappings")
    mapper.add_argument("--no-refinement", action="store_true", help="return the best mapping of the descent")
    mapper.add_argument("--quiet", action="store_true", help="print errors only")
    mapper.set_defaults(run=_map)

    bundled = commands.add_parser("bundled", help="list the designs and workloads that come with this program")
    bundled.add_argument("prefix", nargs="?", default="",
                         help="only those whose name begins so, such as layers/resnet18")
    bundled.set_defaults(run=_bundled)

    doctor = commands.add_parser("doctor", help="what is installed here and what that enables")
    doctor.set_defaults(run=_doctor)
    return parser


def _positive(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: a whole number >= 1')
    return value


def _folder(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"found {text!r}; accepted: the name of a folder")
    return text


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: NAME=VALUE')
    return name, value


def _version() -> str:
    from fadiff_mapper import __version__
    return f"fadiff-mapper {__version__}"


def _load(options: argparse.Namespace) -> Spec:
    from fadiff_mapper import bundled
    from fadiff_mapper.inputs import load, refuse_missing_energies
    names: list[str] = options.files
    spec = load(*(str(bundled.find(name[len(BUNDLED):])) if name.startswith(BUNDLED) else name for name in names),
                jinja_data=dict(options.variables))
    if not options.built_in_energies:
        refuse_missing_energies(spec)
    return spec


def _check(options: argparse.Namespace) -> int:
    from fadiff_mapper import report
    return report.print_spec(_load(options))


def _evaluate(options: argparse.Namespace) -> None:
    from fadiff_mapper import report
    from fadiff_mapper.api import evaluate
    spec = _load(options)
    stats = evaluate(spec)
    if options.json:
        print(json.dumps(stats.to_dict(), indent=1))
    else:
        report.print_stats(stats)
        report.print_notes(spec)


def _map(options: argparse.Namespace) -> None:
    from fadiff_mapper import report, rundir
    spec = _load(options)
    rundir.check_writable(options.output)
    from fadiff_mapper.api import map_layer
    with report.progress(quiet=options.quiet) as on_progress:
        result = map_layer(
            spec, metric=options.metric, seed=options.seed, time_limit=options.time_limit, restarts=options.restarts,
            steps=options.steps, gradient=not options.no_gradient, refinement=not options.no_refinement,
            threads=options.jobs, on_progress=on_progress)
    result.write(options.output)
    if not options.quiet:
        report.print_result(result, options.output)


def _bundled(options: argparse.Namespace) -> None:
    from fadiff_mapper import bundled
    for name in bundled.listing():
        if name.startswith(options.prefix):
            print(BUNDLED + name)


def _doctor(options: argparse.Namespace) -> None:
    from fadiff_mapper import doctor, report
    report.print_findings(doctor.examine())


if __name__ == "__main__":
    sys.exit(main())
