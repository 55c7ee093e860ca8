"""The table of all designs gives back what was put in, in a tenth of the memory."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from math import inf

import pytest

from fadiff_mapper.design.result import DesignOutcome, LeastFigures, NetworkFigures, OutcomeTable

VALUES = {"side": (8, 16, 32), "memory": ("SRAM", "eDRAM"), "share": (0.25, 0.5)}
NETWORKS = [("one", 1.0), ("two", 3.0)]


def figures(name: str, weight: float) -> NetworkFigures:
    return NetworkFigures(name, weight, 1.1, 2.0, 3.3, 4.0, 5)


PARAMETERS = {"side": 32, "memory": "SRAM", "share": 0.5}
MAPPED = DesignOutcome((2, 0, 1), PARAMETERS, True, "", 1e300 / 3, 0.1 + 0.2, 7.7,
                       tuple(figures(*network) for network in NETWORKS), mapped=True)
REFUSED = DesignOutcome((0, 1, 0), {"side": 8, "memory": "eDRAM", "share": 0.25}, False, "area_mm2 is 4, above 3",
                        area_mm2=4.0)
PRUNED = DesignOutcome((2, 0, 1), PARAMETERS, False, "its lower bound is no better than a design that is known",
                       area_mm2=2.5, bounds=LeastFigures(3.25, 1e9, 6e4))
UNMAPPABLE = DesignOutcome((2, 0, 1), PARAMETERS, False, "conv1: no mapping", area_mm2=inf, mapped=True)


def table(*outcomes: DesignOutcome) -> OutcomeTable:
    result = OutcomeTable(VALUES, NETWORKS)
    for outcome in outcomes:
        result.append(outcome)
    return result


def test_outcomes_of_every_kind_come_back_as_they_were() -> None:
    given = [MAPPED, REFUSED, PRUNED, UNMAPPABLE, replace(MAPPED, cut_short=True), REFUSED]
    found = table(*given)
    assert list(found) == given == found[:] == found
    assert found[-1] == REFUSED
    assert found[1:3] == [REFUSED, PRUNED]
    assert [type(value) for value in found[0].parameters.values()] == [int, str, float]
    assert type(found[0].networks[0].fused_groups) is int
    assert found != given[:-1]
    assert table() == []
    with pytest.raises(IndexError):
        found[6]


@pytest.mark.slow
def test_a_design_takes_a_tenth_of_a_kilobyte() -> None:
    gc.collect()
    tracemalloc.start()
    found = table()
    for number in range(5000):
        found.append(replace(MAPPED, energy_pj=float(number)))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 5000 * 200
