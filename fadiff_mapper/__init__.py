"""A mapper for Timeloop: reads its files, evaluates mappings exactly, and finds good ones.

    spec = load("arch.yaml", "problem.yaml")    # any Timeloop files, either dialect, or one dict
    result = map_layer(spec, metric="edp")       # a Result: mapping, stats, status, history
    result.write("out")                          # the files that timeloop-mapper leaves behind
    stats = evaluate(load("out/fadiff.input.yaml"))
"""

import sys  # part of Python itself, and so the one module that no file of the working folder takes the place of

if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith(__name__) and not (
        getattr(sys.flags, "safe_path", sys.flags.isolated) or __path__[0] == f"{sys.path[0]}/{__name__}"):
    # `python -m fadiff_mapper` looks for modules in the working folder first: it goes before the next import (that of
    # `__future__` would be one), unless this package was found there.
    del sys.path[0]

TYPE_CHECKING = False  # known to type checkers; `typing` takes as long to load as all that is needed here

if TYPE_CHECKING:
    from typing import Any

    from fadiff_mapper.api import map_layer, map_layers, map_network, search_design
    from fadiff_mapper.base.errors import FadiffError, InvalidMapping, SpecError
    from fadiff_mapper.base.version import __version__
    from fadiff_mapper.calibration.correction import read_calibration
    from fadiff_mapper.design.result import DesignResult
    from fadiff_mapper.design.space import DesignSpace, read_space
    from fadiff_mapper.dropin.calls import call_mapper, call_model
    from fadiff_mapper.inputs.load import load
    from fadiff_mapper.inputs.spec.mapping import Mapping
    from fadiff_mapper.inputs.spec.spec import Spec
    from fadiff_mapper.model.evaluate_spec import evaluate
    from fadiff_mapper.model.stats import Stats
    from fadiff_mapper.network.options import NetworkOptions
    from fadiff_mapper.network.result import NetworkResult
    from fadiff_mapper.search.options import SearchOptions
    from fadiff_mapper.search.result import Result
    from fadiff_mapper.workload import Workload
    from fadiff_mapper.workload.readers.load_network import load_network
    from fadiff_mapper.workload.readers.network_text import save_network

__all__ = ["DesignResult", "DesignSpace", "FadiffError", "InvalidMapping", "Mapping", "NetworkOptions",
           "NetworkResult", "Result",
           "SearchOptions", "Spec", "SpecError", "Stats", "Workload", "__version__", "call_mapper", "call_model",
           "evaluate", "load", "load_network", "map_layer", "map_layers", "map_network",
           "read_calibration", "read_space", "save_network", "search_design"]

_HOME = dict.fromkeys(("map_layer", "map_layers", "map_network", "search_design"), "api") | {
    "Result": "search.result", "NetworkResult": "network.result", "DesignResult": "design.result",
    "FadiffError": "base.errors", "InvalidMapping": "base.errors", "SpecError": "base.errors",
    "__version__": "base.version", "read_calibration": "calibration.correction",
    "DesignSpace": "design.space", "read_space": "design.space",
    "Mapping": "inputs.spec.mapping", "Spec": "inputs.spec.spec", "Stats": "model.stats", "load": "inputs.load",
    "evaluate": "model.evaluate_spec", "SearchOptions": "search.options",
    "NetworkOptions": "network.options", "Workload": "workload",
    "load_network": "workload.readers.load_network", "save_network": "workload.readers.network_text",
    "call_mapper": "dropin.calls", "call_model": "dropin.calls"}


def __getattr__(name: str) -> "Any":
    """Public names are imported when they are first used, so that small commands stay instant."""
    if name in _HOME:
        from importlib import import_module
        return getattr(import_module(f"fadiff_mapper.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
