"""A designed machine: seven designs of a small space by hand, the best of them with the mappings of `small_network`."""

from __future__ import annotations

from dataclasses import replace

from small_network import HOSTILE, result

from fadiff_mapper.design.question import DesignOptions, DesignQuestion
from fadiff_mapper.design.result import DesignOutcome, DesignResult, LeastFigures, NetworkFigures
from fadiff_mapper.design.space import design_document, read_space

SPACE = {"architecture": {"version": 0.4, "nodes": []}}


def outcome(side: int, depth: int, edp: float = 0.0, area: float = 1.0, reason: str = "") -> DesignOutcome:
    """A design of the space of two parameters; without an EDP it is not feasible for this reason."""
    point, parameters = (side, depth), {"side": 4 << side, "depth": 256 << depth}
    if not edp:
        return DesignOutcome(point, parameters, False, reason)
    stats, unfused = result().stats, result().unfused_stats
    own = NetworkFigures("three", 1.0, stats.energy_pj, stats.cycles, unfused.energy_pj, unfused.cycles, 1)
    return DesignOutcome(point, parameters, True, "", edp / 100, 100, area, (own,), mapped=True)


OUTCOMES = (
    outcome(0, 0, 9e6, 1.0), outcome(3, 0, reason="area_mm2 is 4.5; the limit is 3"), outcome(1, 0, 5e6, 2.0),
    replace(outcome(2, 2), bounds=LeastFigures(1e5, 100.0), reason="its lower bound is worse"), outcome(1, 1, 4e6, 2.5),
    outcome(2, 1, 7e6, 2.8), outcome(0, 3, reason=f"no mapping of {HOSTILE}"))


def machine(*metrics: str, **changes: object) -> DesignResult:
    """The end of a search; with several metrics the front is that of EDP and area."""
    front = (OUTCOMES[4],) if len(metrics) < 2 else (OUTCOMES[4], OUTCOMES[2], OUTCOMES[0])
    space = read_space("bundled:spaces/gemmini_small")
    documents = tuple(design_document(space, (number, 0, 0, 0)) for number in range(len(front)))
    history = tuple({"time_s": 0.5 * number, "evaluations": number, "value": each.edp} for number, each in
                    enumerate((OUTCOMES[0], OUTCOMES[2], OUTCOMES[4]), 1))
    several = len(metrics) > 1
    made = DesignResult(
        question=DesignQuestion(space, (result().workload,), (1.0,), DesignOptions(metrics or ("edp",))),
        name="by hand", space_size=16, limits={"area_mm2": 3.0},
        metrics=metrics or ("edp",), outcomes=OUTCOMES, front=front, documents=documents, mapped_networks=(result(),),
        neighbours=(OUTCOMES[0], outcome(1, 2, 4.4e6, 2.9)),
        final=(replace(OUTCOMES[4], energy_pj=44e3), *front[1:]), final_source="Accelergy",
        hypervolume=0.5 if several else None, reference=(9e6, 2.8) if several else (), history=history,
        options={"method": "random", "seed": 0}, status="all designs were mapped", time_s=2.5)
    return replace(made, **changes)
