"""The certificate of a proof: every part of the map space whose bound is below the best mapping, down to mappings.

`validation/check_certificate.py` states each rule once more and checks a certificate against the input by itself.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.lower_bound.proof import TOLERANCE, core_of, metric_of
from fadiff_mapper.search.lower_bound.schemes import Layout, Scheme, layouts, schemes
from fadiff_mapper.search.mapspace.build import MapSpace

ALL = 1 << 60
"""A budget without an end."""


def certificate(layer: PreparedLayer, space: MapSpace, metric: str, nest: Nest, gap: float,
                over: Over = never) -> dict[str, Any]:
    """The certificate that no mapping of a map space is better than a given one by more than a gap.

    Returns plain data: the mapping with its value, the limit that others were held to, and the parts below it. A part
    has its bound and the parts that it is divided into, of which those at the limit or above it are left out; or, once
    all its loops are fixed, the least value of its mappings and how many there are. Raises FadiffError if a mapping is
    below the limit, or some are not evaluated; OutOfTime.
    """
    if layer.machine.element_words is not None:
        raise FadiffError("certificate: found bits of tensors, which its checker does not know; accepted: a problem "
                          "without bits")
    value = metric_of(score(layer, nest), metric)
    limit, core, levels = value * (1 - TOLERANCE) / (1 + gap), core_of(layer, space, metric), len(space.levels)

    def divided(scheme: Scheme, placed: list[Layout],
                outer: list[tuple[list[float], list[int]]]) -> list[dict[str, Any]]:
        parts = []
        for bound, factors, order in in_time(core.divided(outer, limit)[1], over):
            inner = [*outer, (factors, order)]
            part: dict[str, Any] = {"bound": bound, "factors": [int(factor) for factor in factors], "order": order}
            if len(inner) < levels - 1:
                part["parts"] = divided(scheme, placed, inner)
            else:
                core.begin(scheme.spatial, scheme.keep, placed)  # so that all orders are looked at, whatever was before
                _, least, best, _, mappings, _ = core.search(inner, inf, ALL)
                if least < limit or best < limit:
                    raise FadiffError("certificate: found a better mapping; accepted: the one that was proved")
                part |= {"least": None if best == inf else best, "mappings": mappings}
            parts.append(part)
        return parts

    found = []
    for scheme in in_time(schemes(space), over):
        placed = list(layouts(space, scheme))
        bound = core.begin(scheme.spatial, scheme.keep, placed)
        if bound < limit:
            spatial, keep = (np.reshape(values, (levels, -1)).tolist() for values in (scheme.spatial, scheme.keep))
            found.append({"bound": bound, "spatial": spatial, "keep": keep, "parts": divided(scheme, placed, [])})
    return {"version": 1, "metric": metric, "gap": gap, "value": value, "limit": limit,
            "bounds": dict(space.problem.bounds),
            "mapping": {**{name: getattr(nest, name)[..., 0].astype(int).tolist() for name in
                           ("temporal", "spatial", "order")}, "keep": nest.keep[..., 0].tolist()},
            "schemes": found}
