"""Results as pandas tables; only this module loads pandas."""

from __future__ import annotations

import io

import pandas as pd

from fadiff_mapper.design.result import DesignResult
from fadiff_mapper.inference.infer import InferenceResult
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.output.design_files import designs_csv
from fadiff_mapper.output.inference_files import COLUMNS
from fadiff_mapper.output.layer_views import layer_views
from fadiff_mapper.search.result import Result


def layer_frame(result: Result) -> pd.DataFrame:
    """A row for each level and data space, innermost level first: counts under Timeloop's names, energies in pJ."""
    return pd.json_normalize([{"level": level["name"], "data_space": name, "cycles": level["cycles"], **counts}
                              for level in result.stats.levels for name, counts in level["dataspaces"].items()])


def network_frame(result: NetworkResult) -> pd.DataFrame:
    """A row for each layer: its fused group, energy in pJ and cycles of all runs in the plan and by itself."""
    return pd.DataFrame([{
        "layer": view.name, "group": view.group, "energy_pj": view.planned.energy_pj,
        "cycles": view.planned.cycles, "unfused_energy_pj": view.unfused.energy_pj,
        "unfused_cycles": view.unfused.cycles}
        for view in layer_views(result)]).astype({"group": "Int64"})


def design_frame(result: DesignResult) -> pd.DataFrame:
    """A row for each design that was proposed, with the columns of designs.csv."""
    return pd.read_csv(io.StringIO(designs_csv(result.outcomes)))


def inference_frame(result: InferenceResult) -> pd.DataFrame:
    """A row for each operator of each mapped step, with the columns of operators.csv: cycles and pJ of all its runs."""
    return pd.DataFrame([[getattr(share, name) for name in COLUMNS] for share in result.operators],
                        columns=list(COLUMNS))
