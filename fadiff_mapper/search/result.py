"""The result of mapping one layer, with methods that write, draw and check it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.extras import require
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, found_mapping, layer_of
from fadiff_mapper.model.loop_nest import Nest, pack
from fadiff_mapper.model.stats import Stats

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from fadiff_mapper.search.explanation.sensitivities import Sensitivity
    from fadiff_mapper.search.lower_bound.assemble import LowerBound
    from fadiff_mapper.timeloop.verify import Verdict


CHOSEN = "chosen for the network"
"""Status of a mapping that is best for a network, but not for its layer by itself."""


@dataclass(frozen=True)
class CorrectedCycles:
    """Cycles of a mapping on measured hardware, predicted by a calibration.

    Attributes:
        cycles: Corrected cycles of the mapping.
        exact_choice_cycles: Corrected cycles of the mapping that is best without the calibration.
        exact_choice_energy_pj: Energy of that mapping in pJ.
    """

    cycles: float
    exact_choice_cycles: float
    exact_choice_energy_pj: float


@dataclass(frozen=True)
class Result:
    """A mapping with its numbers and the record of its search.

    Attributes:
        spec: The input: architecture, problem, energies, constraints.
        mapping: The best mapping that the search found.
        stats: Its numbers, as `timeloop-model` computes them.
        status: How the search ended, in words.
        history: Every improvement in order: `time_s` since the start, `evaluations` so far, `value` of the metric
            (None before a legal mapping), `stage` that found it.
        options: The options of the search, by name.
        evaluations: Mappings evaluated.
        time_s: Seconds from the start of the search to this result.
        bound: The lower bound over all mappings within the constraints; None where none is known.
        sensitivities: The metric's sensitivities to constants of the machine; empty unless asked for.
        corrected: Cycles on measured hardware; None without a calibration. `stats` are Timeloop's in either case.
    """

    spec: Spec
    mapping: Mapping
    stats: Stats
    status: str
    history: tuple[dict[str, Any], ...]
    options: dict[str, Any]
    evaluations: int
    time_s: float
    bound: LowerBound | None = None
    sensitivities: tuple[Sensitivity, ...] = ()
    corrected: CorrectedCycles | None = None

    @property
    def metric(self) -> str:
        """The metric of first priority; EDP by default."""
        return str(self.options.get("metrics", ("edp",))[0])

    @property
    def value(self) -> float:
        """The mapping's value of the metric of first priority; see `Stats.of`."""
        return self.stats.of(self.metric)

    @property
    def gap(self) -> float | None:
        """Share by which `value` may be above the best possible one; 0: proved best; None: unknown."""
        return None if self.bound is None else self.bound.gap(self.metric, self.value)

    def write(self, folder: str | Path) -> None:
        """Writes the files of the run into a folder, which is made if missing; all files or none.

        They include the files of `timeloop-mapper`. Raises FadiffError if a file cannot be written.
        """
        from fadiff_mapper.output.run_files import run_files
        with lock(folder):
            write_files(folder, run_files(self))

    def certificate(self) -> dict[str, Any]:
        """The proof that no mapping is better, for `fadiff-validate certificate`; FadiffError if it is incomplete."""
        from fadiff_mapper.search.lower_bound.proof import certificate
        from fadiff_mapper.search.mapspace.build import build_mapspace
        asked = self.options["gap"] if self.options.get("prove") else None
        if asked is None or self.gap is None or self.gap > asked:
            raise FadiffError("certificate: found a mapping whose proof did not end; accepted: one that is proved")
        layer, nest = layer_of(self.spec), pack([self.mapping], self.spec.problem)
        space = build_mapspace(layer.arch, self.spec.problem, self.spec.constraints)
        return certificate(layer, space, self.metric, nest, asked)

    def verify(self) -> Verdict:
        """The comparison of every number with the real `timeloop-model` on the PATH; FadiffError without one."""
        from fadiff_mapper.timeloop.verify import verify
        return verify(self.spec, self.mapping, self.stats)

    def plot(self) -> Figure:
        """A matplotlib figure: energy by component and data space beside the metric over the time of the search.

        Raises FadiffError without matplotlib.
        """
        require("matplotlib", "plot", "plot()")
        from fadiff_mapper.output.notebook import layer_figure
        return layer_figure(self)

    def to_dataframe(self) -> DataFrame:
        """A pandas table of `stats`: a row for each level and data space. Raises FadiffError without pandas."""
        require("pandas", "pandas", "to_dataframe()")
        from fadiff_mapper.output.frames import layer_frame
        return layer_frame(self)

    def _repr_html_(self) -> str:
        """For notebooks: status, statistics, lower bound and loop nest."""
        from fadiff_mapper.output.notebook import layer_html
        return layer_html(self)


def with_nest(result: Result, nest: Nest, stats: Stats | None = None) -> Result:
    """The result with another mapping, a nest of one row, and its statistics; None: evaluated here.

    A mapping that the search did not choose has the status `CHOSEN`.
    """
    spec = result.spec
    mapping = found_mapping(spec, nest)
    return replace(result, mapping=mapping, stats=stats or evaluate_mapping(spec, mapping),
                   status=result.status if mapping == result.mapping else CHOSEN)
