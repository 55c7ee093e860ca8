"""Reads `mapper:` into `MapperOptions`: options with a meaning for the search here, and a reason for each other."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec.keys import IDLE_OPTIONS, MAPPER
from fadiff_mapper.inputs.spec.spec import METRICS, MapperOptions
from fadiff_mapper.inputs.yaml.leniency import STRICT, Leniency
from fadiff_mapper.inputs.yaml.located import Reader, mapping, one_of, sequence
from fadiff_mapper.inputs.yaml.place import Where

UNSET = (None, False, -1, "timeloop-mapper")
"""Values by which Timeloop's front end says that an option is not used; they need no word."""


def read_mapper(node: Any, where: Where, leniency: Leniency = STRICT) -> MapperOptions:
    """Reads the mapper section; options that change nothing here may be written with hyphens."""
    reader = Reader(underscored(mapping(node, where)), leniency, MAPPER)
    spellings = MAPPER["optimization_metric"].spellings
    written = reader.read("optimization_metric")
    at = reader.at(next((name for name in spellings if reader.has(name)), spellings[0]))
    metrics: tuple[str, ...] = ()
    if isinstance(written, str):
        metrics = (one_of(*METRICS)(written, at),)
    elif written is not None:
        metrics = tuple(one_of(*METRICS)(str(value), place) for value, place in sequence(written, at).placed())
    threads = reader.read("num_threads")
    ignored = tuple((name, why) for name, why in IDLE_OPTIONS.items() if reader.read(name) not in UNSET)
    reader.finish(" in the mapper section")
    return MapperOptions(metrics or ("edp",), threads, ignored)
