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
from fadiff_mapper.workload.coverage import require_coverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fadiff_mapper.network.plan.run_state import OnProgress


@dataclass(frozen=True)
class Result(MappedLayer):
    """The result of `map_layer`: a mapping, its numbers, and its history; attributes as in `MappedLayer`."""

    def write(self, folder: str | Path) -> None:
        """Writes the files of the run, those that `timeloop-mapper` leaves among them, all or none.

        Args:
            folder: The folder; made where it does not exist.

        Raises:
            FadiffError: A file cannot be written.
        """
        from fadiff_mapper.output.timeloop_files.write_layer import write_layer
        write_layer(self, folder)

    def with_sensitivities(self) -> Result:
        """The result with the derivatives of its metric by the constants of the machine; takes seconds."""
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
    """The result of `map_network`: the plan of a network, every number exact; attributes as in `MappedNetwork`."""

    def write(self, folder: str | Path) -> None:
        """Writes the plan, its page and the files of every layer.

        Args:
            folder: The folder; made where it does not exist.

        Raises:
            FadiffError: A file cannot be written.
        """
        from fadiff_mapper.output.network_report.write_network import write_network
        write_network(self, folder)

    def to_looptree(self, group: GroupInNetwork | int) -> dict[str, Any]:
        """One run of a group as an input of LoopTree (`v4fused`).

        Args:
            group: A group of the plan, or its number in the plan from 1.

        Returns:
            The sections of the input, as plain values for YAML.

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
    """Finds a mapping of one problem.

    Args:
        spec: The input: architecture, problem, energies, constraints.
        options: Effort and parts of the search; None is `SearchOptions()`.
        metric: One metric, or several in order of priority; takes the place of `options.metrics`.
        seed: Takes the place of `options.seed`.
        time_limit: Seconds; takes the place of `options.time_limit`.
        warm_start: A mapping to start from; the result is at least as good.
        on_progress: Called whenever the best mapping improves.

    Returns:
        The best mapping found, with its numbers and the history of the search.

    Raises:
        FadiffError: An option is out of range, constraints contradict each other, the map space is too large for an
            exhaustive search, the warm start is not a legal mapping, or no legal mapping is found.
    """
    return map_layers([spec], options, metric=metric, seed=seed, time_limit=time_limit, warm_starts=[warm_start],
                      on_progress=on_progress and (lambda _, step: on_progress(step)))[0]


def map_layers(specs: Sequence[Spec], options: SearchOptions | None = None, *,
               metric: str | Sequence[str] | None = None, seed: int | None = None, time_limit: float | None = None,
               warm_starts: Sequence[Mapping | None] = (),
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, Result], None] | None = None,
               stopped: Callable[[], bool] = lambda: False) -> list[Result]:
    """Finds a mapping for each of many problems, all at once; equal problems are mapped once.

    Args:
        specs: The problems, each on its design.
        options: Effort and parts of the search; None is `SearchOptions()`.
        metric: One metric, or several in order of priority; takes the place of `options.metrics`.
        seed: Takes the place of `options.seed`.
        time_limit: Seconds for all problems together; takes the place of `options.time_limit`.
        warm_starts: For each problem a mapping to start from, or None.
        on_progress: Called with the number of a problem whenever its best mapping improves.
        on_better: Called with the number of a problem and a result to keep: a first one, better ones while the search
            runs, and the last.
        stopped: Asked again and again; once true, the search ends with the best so far.

    Returns:
        One result per problem, in order.

    Raises:
        FadiffError: As for `map_layer`; the results of the other problems have then been passed to `on_better`.
    """
    def better(index: int, result: MappedLayer) -> None:
        if on_better:
            on_better(index, Result(**vars(result)))

    return [Result(**vars(result)) for result in layer_search.map_layers(
        specs, options, metric=metric, seed=seed, time_limit=time_limit, warm_starts=warm_starts,
        on_progress=on_progress, on_better=better if on_better else None, stopped=stopped)]


def map_network(workload: Workload, arch_spec: Design, options: NetworkOptions | None = None, *,
                metric: str | None = None, seed: int | None = None, time_limit: float | None = None,
                energy: str = "bundled", strict: bool = True, checkpoint_file: str | PathLike[str] | None = None,
                allow_partial: bool = False, on_progress: OnProgress = lambda *_: None,
                stopped: Callable[[], bool] = lambda: False) -> NetworkResult:
    """Plans a whole network: fused groups, their tiles, all mappings.

    Args:
        workload: The network.
        arch_spec: The design: a `Spec` (its problem is left out), a dict, a file or several.
        options: Effort and parts of the search; None is `NetworkOptions()`.
        metric: Metric of the whole network; takes the place of `options.metric`.
        seed: Takes the place of `options.seed`.
        time_limit: Seconds; takes the place of `options.time_limit`.
        energy: Where energies come from that no ERT in the design gives (see `energy.source_names.CHOICES`).
        strict: Whether input of the design that Timeloop ignores is an error, not a warning.
        checkpoint_file: File to which mappings of layers and groups are written as they are found, and from which
            they are read if it exists.
        on_progress: Called with a stage and the network's value at every improvement.
        stopped: Asked again and again; once true, the search ends with the best plan so far.

    Returns:
        A plan that is never worse than the layers one by one.

    Raises:
        SpecError: The design or the network is wrong.
        FadiffError: Too little of the network is understood, an option is out of range, a layer has no legal mapping,
            or the checkpoint is of another network, design or version.
    """
    require_coverage(workload, allow_partial, "allow_partial=True")
    from fadiff_mapper.network import map_network as network_search  # loads torch
    return NetworkResult(**vars(network_search.map_network(
        workload, arch_spec, options, metric=metric, seed=seed, time_limit=time_limit, energy=energy, strict=strict,
        checkpoint_file=checkpoint_file, on_progress=on_progress, stopped=stopped)))
