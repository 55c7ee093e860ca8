"""The public Python interface: searches of layers and networks, and results that write themselves.

The rooms behind this file exchange plain values; the methods here are one-line calls of functions further out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.network.layers.one_design import Design
from fadiff_mapper.network.layers.options import NetworkOptions
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.results.mapped_network import GroupInNetwork, MappedNetwork
from fadiff_mapper.search import map_layers as layer_search
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fadiff_mapper.network.plan.run_state import OnProgress


@dataclass(frozen=True)
class Result(MappedLayer):
    """The result of `map_layer`: a mapping, its numbers, and the history of the search."""

    def write(self, folder: str | Path) -> None:
        """Writes the files of the run into a folder, all or none. Raises FadiffError."""
        from fadiff_mapper.output.timeloop_files.write_layer import write_layer
        write_layer(self, folder)

    def with_sensitivities(self) -> Result:
        """The result with derivatives of its metric by the constants of the machine; takes seconds."""
        from fadiff_mapper.analysis.sensitivity.sensitivities import mapping_sensitivities
        return replace(self, sensitivities=mapping_sensitivities(self.spec, self.mapping, self.metric))

    def plot(self) -> Figure:
        """A matplotlib figure: energy by component and data space beside the metric over the time of the search."""
        from fadiff_mapper.output.notebook.layer_figure import layer_figure
        return layer_figure(self)

    def _repr_html_(self) -> str:
        """For notebooks: status, statistics, lower bound and loop nest."""
        from fadiff_mapper.output.notebook.result_html import layer_html
        return layer_html(self)


@dataclass(frozen=True)
class NetworkResult(MappedNetwork):
    """The result of `map_network`: the plan of a network, every number of it computed exactly."""

    def write(self, folder: str | Path) -> None:
        """Writes the plan and the files of every layer into a folder. Raises FadiffError."""
        from fadiff_mapper.output.network_report.write_network import write_network
        write_network(self, folder)

    def to_looptree(self, group: GroupInNetwork | int) -> dict[str, Any]:
        """One run of a group as an input of LoopTree (`v4fused`).

        Args:
            group: A group of the plan, or its number in the plan from 1.

        Raises:
            FadiffError: There is no such group, or LoopTree cannot express it.
        """
        from fadiff_mapper.output.looptree_files.group_text import to_looptree
        if isinstance(group, int):
            if not 1 <= group <= len(self.groups):
                raise FadiffError(f"group: found {group}; accepted: 1 to {len(self.groups)}, the groups of the plan")
            group = self.groups[group - 1]
        return to_looptree(group.group, self.hardware, alike=False)

    def plot(self) -> Figure:
        """A matplotlib figure: every layer with and without fusion, and the network's metric over time."""
        from fadiff_mapper.output.notebook.network_figure import network_figure
        return network_figure(self)

    def _repr_html_(self) -> str:
        """For notebooks: totals, fused groups, and the page of the plan with its drawings."""
        from fadiff_mapper.output.notebook.result_html import plan_html
        return plan_html(self)


def map_layer(spec: Spec, options: SearchOptions | None = None, *, metric: str | Sequence[str] | None = None,
              seed: int | None = None, time_limit: float | None = None, warm_start: Mapping | None = None,
              on_progress: Callable[[Progress], None] | None = None) -> Result:
    """Finds a mapping of one problem; the arguments are those of `map_layers`."""
    return map_layers([spec], options, metric=metric, seed=seed, time_limit=time_limit, warm_starts=[warm_start],
                      on_progress=on_progress and (lambda _, step: on_progress(step)))[0]


def map_layers(specs: Sequence[Spec], options: SearchOptions | None = None, *,
               metric: str | Sequence[str] | None = None, seed: int | None = None, time_limit: float | None = None,
               warm_starts: Sequence[Mapping | None] = (),
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, Result], None] | None = None,
               stopped: Callable[[], bool] = lambda: False) -> list[Result]:
    """Finds a mapping for each of many problems, all at once; see `search.map_layers` for the arguments."""
    def better(index: int, result: MappedLayer) -> None:
        if on_better:
            on_better(index, Result(**vars(result)))

    return [Result(**vars(result)) for result in layer_search.map_layers(
        specs, options, metric=metric, seed=seed, time_limit=time_limit, warm_starts=warm_starts,
        on_progress=on_progress, on_better=better if on_better else None, stopped=stopped)]


def map_network(workload: Workload, arch_spec: Design, options: NetworkOptions | None = None, *,
                metric: str | None = None, seed: int | None = None, time_limit: float | None = None,
                energy: str = "bundled", checkpoint_file: str | PathLike[str] | None = None,
                on_progress: OnProgress = lambda *_: None,
                stopped: Callable[[], bool] = lambda: False) -> NetworkResult:
    """Plans a whole network: fused groups, their tiles, all mappings; see `network.map_network` for the arguments."""
    from fadiff_mapper.network import map_network as network_search  # loads torch
    return NetworkResult(**vars(network_search.map_network(
        workload, arch_spec, options, metric=metric, seed=seed, time_limit=time_limit, energy=energy,
        checkpoint_file=checkpoint_file, on_progress=on_progress, stopped=stopped)))
