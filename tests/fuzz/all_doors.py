"""All doors by name."""

from __future__ import annotations

from fuzz import doors, hardware_doors, network_doors, sparse_doors
from fuzz.attack import Door

DOORS: dict[str, Door] = {
    "yaml": doors.yaml_files, "expressions": doors.expressions, "templates": doors.templates,
    "lenient": sparse_doors.lenient_reading, "sparse": sparse_doors.sparse_designs, "onnx": doors.onnx_models,
    "operators": network_doors.operator_kinds, "networks": doors.network_files,
    "mapped": network_doors.mapped_networks, "folders": doors.folders, "runs": doors.finished_runs,
    "attributes": doors.extreme_attributes, "sizes": doors.sizes, "files": doors.odd_files,
    "checkpoints": doors.checkpoints, "launchers": doors.launchers, "arguments": doors.arguments,
    "spaces": hardware_doors.design_spaces, "measured": hardware_doors.measured_cycles,
    "calibrations": hardware_doors.calibrations}
