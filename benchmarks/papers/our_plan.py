"""Our own search with the options of the product, on one thread: layers one by one, then the network's plan."""

from __future__ import annotations

import time
from math import inf
from unittest.mock import patch

from fadiff_mapper.base.deadline import never
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.map_network import plan_network
from fadiff_mapper.network.options import NetworkOptions, layer_search
from fadiff_mapper.search import refinement
from fadiff_mapper.search.map_layers import ResultStream
from fadiff_mapper.search.mapping_task import checked_task
from fadiff_mapper.search.options import Progress
from fadiff_mapper.search.result import Result
from fadiff_mapper.search.search_many import search_all

from .course import LayerCourse, NetworkCourse
from .evaluation_count import counted_evaluations
from .networks import NetworkQuestion
from .part import Record


def search(question: NetworkQuestion, fuse: bool, seed: int) -> NetworkCourse:
    """Maps a network.

    Args:
        question: The network on its design.
        fuse: Whether layers may be fused.
        seed: Seed of every random number.
    """
    options, joined = NetworkOptions(fuse=fuse, seed=seed, threads=1), question.joined
    courses = [LayerCourse(times) for times in question.times]
    mapped_layer(question.specs[0], options, LayerCourse(1), {"looked_at": 0})     # libraries load parts on first use
    course = NetworkCourse(courses, (joined.energy_pj, joined.cycles), len(courses), notes={"looked_at": 0})
    mapped = [mapped_layer(spec, options, own, course.notes)
              for spec, own in zip(question.specs, courses, strict=True)]
    spent, evaluated = sum(own.cpu_s for own in courses), sum(own.evaluations for own in courses)
    start = time.process_time()
    with counted_evaluations() as count:
        def note(_: str, edp: float) -> None:
            course.whole.append((spent + time.process_time() - start, evaluated + count.legal, float(edp)))

        result = plan_network(question.workload, question.specs, options, mapped=mapped, on_progress=note)
        note("end", result.stats.edp)
    course.cpu_s, course.evaluations = course.whole[-1][:2]
    course.notes |= {"groups": len(result.groups), "unfused_edp": result.unfused_stats.edp,
                     "looked_at": course.notes["looked_at"] + count.all}
    return course


def mapped_layer(spec: Spec, options: NetworkOptions, course: LayerCourse, notes: Record) -> Result:
    """Maps a layer as the product does, and notes the course of its search.

    Args:
        spec: The layer on its design.
        options: Of the network's plan.
        course: Takes the improvements, looked at after every round.
        notes: Takes the number of mappings evaluated, illegal ones too, as `looked_at`.
    """
    start = time.process_time()
    task, effort = checked_task(spec), layer_search(options)

    def watch(_: int, nest: Nest, progress: Progress) -> None:
        if progress.legal:
            found = score(task.layer, nest)
            course.note(time.process_time() - start, progress.legal_evaluations, float(found.energy[0]),
                        float(found.cycles[0]))

    with patch.object(refinement, "LOOK_EVERY", 0.0):
        outcomes = search_all([task], effort, watcher=watch)
    stream = ResultStream([spec], [task], effort, None, None, None, inf, never, time.monotonic())
    [result] = stream.send_last(outcomes, lambda index: None)  # nobody asks for a bound
    course.end(time.process_time() - start, outcomes[0].legal_evaluations)
    notes["looked_at"] += outcomes[0].evaluations
    return result
