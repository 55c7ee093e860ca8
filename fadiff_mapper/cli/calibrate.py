"""`calibrate`: learn what measured hardware does that the exact model does not."""

from __future__ import annotations

import argparse
from pathlib import Path

from fadiff_mapper.cli.arguments import Commands
from fadiff_mapper.cli.exit_codes import CHECK_FAILED, DONE


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser(
        "calibrate", help="learn a correction of cycles from measured hardware",
        description="MEASURED.csv has one measured point a row: rtl_cycles (or cycles), mapping (in one line, or the "
                    "name of a YAML file), and the layer: R S P Q C K N with Wstride Hstride Wdilation Hdilation, or "
                    "problem, the name of a YAML file; part=searched marks points that a search proposed, by which the "
                    "correction is judged and from which it does not learn.")
    parser.add_argument("measured", metavar="MEASURED.csv")
    parser.add_argument("arch", nargs="+", metavar="ARCH", help="the measured design (of a space: where it stands)")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="the calibration to write (JSON)")
    parser.add_argument("--program", metavar="NAME",
                        help="what runs a mapping on the hardware: as-mapped (the loops as they stand) or gemmini "
                             "(Gemmini's library); default: what predicts layers not learned from best")
    parser.add_argument("--seed", type=int, default=0, help="of the split by layer (default 0)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Fits, writes the calibration and prints the verdict.

    Returns:
        The exit code: `CHECK_FAILED` where the correction does not beat the exact model.
    """
    from fadiff_mapper.base import atomic_files
    from fadiff_mapper.base.errors import FadiffError, listed
    from fadiff_mapper.calibration.calibrate import calibrate
    from fadiff_mapper.calibration.correction import calibration_text
    from fadiff_mapper.calibration.features import PROGRAMS
    from fadiff_mapper.calibration.measured_points import read_measured
    from fadiff_mapper.inputs.load import read_document
    from fadiff_mapper.inputs.load_layers import files_of
    from fadiff_mapper.output.console import print_calibration
    if options.program is not None and options.program not in PROGRAMS:
        raise FadiffError(f"--program: found {options.program}; accepted: {listed(PROGRAMS)}")
    if options.seed < 0:
        raise FadiffError(f"--seed: found {options.seed}; accepted: a whole number >= 0")
    output = Path(options.output)
    files = files_of(options.arch)
    atomic_files.check_names(output.parent, [output.name], [options.measured, *files])
    architecture = read_document(*files)
    layers = read_measured(options.measured, architecture)
    calibration = calibrate(layers, program=options.program, seed=options.seed)
    atomic_files.write_files(output.parent, {output.name: calibration_text(calibration)})
    print_calibration(calibration, options.output)
    return DONE if calibration.useful else CHECK_FAILED
