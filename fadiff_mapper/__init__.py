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

# ruff: noqa: F403, F405  type checkers find the names below in `api`
TYPE_CHECKING = False  # known to type checkers; `typing` takes as long to load as all that is needed here

if TYPE_CHECKING:
    from typing import Any

    from fadiff_mapper.api import *

__all__ = ["DesignOptions", "DesignResult", "DesignSpace", "DesignWorkers", "FadiffError", "InferenceResult",
           "InvalidMapping", "Mapping", "NetworkOptions", "NetworkResult", "Result", "SearchOptions", "Spec",
           "SpecError", "Stats", "Workload", "__version__", "bundled_names", "calibrate", "call_mapper", "call_model",
           "evaluate", "examine", "explain_run", "infer", "json_schema", "load", "load_layers", "load_network",
           "map_layer", "map_layers", "map_network", "quickstart", "read_calibration", "read_run", "read_space",
           "remove_launchers", "save_network", "search_design", "verify", "write_launchers"]


def __getattr__(name: str) -> "Any":
    """Public names are imported from `api` when they are first used, so that small commands stay instant."""
    if name in __all__:
        from fadiff_mapper import api
        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
