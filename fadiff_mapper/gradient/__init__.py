"""Gradient descents of layers, networks and designs (FADiff, DOSA): the only room that computes with PyTorch.

Searches do not import this room. Callers with the method "gradient" pass them the descents from the functions below;
PyTorch is loaded when a descent begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.deadline import Over
from fadiff_mapper.base.extras import installed, require

if TYPE_CHECKING:
    import numpy as np

    from fadiff_mapper.design.bound_designs import DesignDescent
    from fadiff_mapper.model.loop_nest import Nest
    from fadiff_mapper.network.options import NetworkOptions
    from fadiff_mapper.network.planning import DescendedNetwork, NetworkDescent
    from fadiff_mapper.search.best_so_far import SearchState
    from fadiff_mapper.search.options import SearchOptions
    from fadiff_mapper.search.result import Result
    from fadiff_mapper.workload import Workload

METHOD = "the method gradient"


def with_layer_descent(options: SearchOptions) -> SearchOptions:
    """The options of a layer search by the method "gradient", with the descent. Raises FadiffError without PyTorch."""
    require("torch", "gradient", METHOD)

    def descend(state: SearchState, rng: np.random.Generator) -> Nest:
        from fadiff_mapper.gradient import layer_descent
        return layer_descent.descend(state, rng, options.model)
    return replace(options, effort=replace(options.schedule, descent=descend))


def descent_for_network(options: NetworkOptions) -> NetworkDescent:
    """The descent on a network, by options whose method is "gradient". Raises FadiffError without PyTorch."""
    require("torch", "gradient", METHOD)

    def descend(workload: Workload, results: Sequence[Result], metric: str, seed: int,
                over: Over) -> DescendedNetwork | None:
        from fadiff_mapper.gradient.network_descent import descended_network
        return descended_network(workload, results, metric, seed, over, options.model)
    return descend


def descent_for_designs(method: str | None) -> DesignDescent | None:
    """The descent on designs for a method; by default if PyTorch is installed. Raises FadiffError without PyTorch."""
    if method not in (None, "gradient") or (method is None and not installed("torch")):
        return None
    require("torch", "gradient", METHOD)

    def descend(*arguments: Any) -> Any:
        from fadiff_mapper.gradient.hardware_descent import descended_designs
        return descended_designs(*arguments)
    return descend
