"""Gradient descents of layers, networks and designs (FADiff, DOSA): the only room that computes with PyTorch.

Searches do not import this room. Callers with the method "gradient" pass them the descents from the functions below;
PyTorch is loaded when a descent begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.extras import installed, require

if TYPE_CHECKING:
    from fadiff_mapper.design.bound_designs import DesignDescent
    from fadiff_mapper.network.options import NetworkOptions
    from fadiff_mapper.network.planning import NetworkDescent
    from fadiff_mapper.search.options import SearchOptions

METHOD = "the method gradient"


def _loaded_when_called(module: str, name: str, *last: Any) -> Callable[..., Any]:
    """A function of this room with its last arguments fixed, loaded when called. Raises FadiffError without PyTorch."""
    require("torch", "gradient", METHOD)
    return lambda *first: getattr(import_module(f"{__name__}.{module}"), name)(*first, *last)


def with_layer_descent(options: SearchOptions) -> SearchOptions:
    """The options of a layer search by the method "gradient", with the descent. Raises FadiffError without PyTorch."""
    return replace(options, effort=replace(options.schedule, descent=_loaded_when_called(
        "layer_descent", "descend", options.model)))


def descent_for_network(options: NetworkOptions) -> NetworkDescent:
    """The descent on a network, by options whose method is "gradient". Raises FadiffError without PyTorch."""
    return _loaded_when_called("network_descent", "descended_network", options.model)


def descent_for_designs(method: str | None) -> DesignDescent | None:
    """The descent on designs for a method; by default if PyTorch is installed. Raises FadiffError without PyTorch."""
    if method not in (None, "gradient") or (method is None and not installed("torch")):
        return None
    return _loaded_when_called("hardware_descent", "descended_designs")
