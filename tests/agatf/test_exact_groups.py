"""Exact costs of groups, and the planner's way to its plan, on a network of a few layers."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest

from benchmarks.agatf.evaluation_orders import all_groups
from benchmarks.agatf.exact_groups import SpaceTask, space_group, space_task, space_with
from benchmarks.agatf.import_networks import INPUTS, network
from benchmarks.agatf.planner_course import planner_course, without_second_reads
from fadiff_mapper import NetworkOptions, Workload, load_network, map_network
from fadiff_mapper.base import bundled_files

TEXT = """
workload:
  version: 1
  name: three
  inputs: {x: [1, 16, 16, 16]}
  shapes:
  - {id: a, op: conv, dims: {N: 1, M: 16, C: 16, P: 16, Q: 16, R: 1, S: 1}, stride: [1, 1]}
  - {id: b, op: depthwise, dims: {N: 1, G: 16, M: 1, C: 1, P: 14, Q: 14, R: 3, S: 3}, stride: [1, 1]}
  graph:
  - {name: first, shape: a, from: [x]}
  - {name: second, shape: b, from: [first]}
"""


RESIDUAL = """
workload:
  version: 1
  name: residual
  inputs: {x: [1, 32, 56, 56]}
  shapes:
  - {id: a, op: conv, dims: {N: 1, M: 32, C: 32, P: 56, Q: 56, R: 1, S: 1}, stride: [1, 1]}
  graph:
  - {name: first, shape: a, from: [x]}
  - {name: second, shape: a, from: [first]}
  - {name: sum, op: add, from: [second, first]}
  - {name: last, shape: a, from: [sum]}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    file = tmp_path_factory.mktemp("networks") / "small.yaml"
    file.write_text(TEXT)
    return load_network(file)


@pytest.fixture(scope="module")
def task(small: Workload) -> SpaceTask:
    return space_task(small, "gemmini_small")


def test_a_space_has_the_costs_of_the_planner(small: Workload, task: SpaceTask) -> None:
    space = space_with(task, tuple(space_group(task, segment) for segment in task.segments.values()))
    plan = map_network(small, bundled_files.find("arch/gemmini_small"), NetworkOptions(threads=1))
    assert space.log_edp() == pytest.approx(log(plan.unfused_stats.edp), abs=1e-12)
    assert len(space.number) == 1 and len(plan.groups) == 1
    assert all_groups(space).course[-1][1] == pytest.approx(log(plan.stats.edp), rel=0.05)


def test_a_group_costs_the_same_whatever_was_evaluated_before(task: SpaceTask) -> None:
    segment = next(iter(task.segments.values()))
    assert space_group(task, segment).exact == space_group(task, segment).exact


def test_the_planners_course_ends_at_its_plan(small: Workload) -> None:
    run = planner_course(small, "gemmini_small", seed=0)
    plan = map_network(small, bundled_files.find("arch/gemmini_small"), NetworkOptions(threads=1))
    assert run.course[0][0] == 0 and run.course[-1][1] == pytest.approx(log(plan.stats.edp), abs=1e-12)
    assert 0 < run.course[-1][0] <= run.searches


def test_the_planner_can_leave_out_residual_operands_that_stay_on_the_chip(tmp_path: Path) -> None:
    file = tmp_path / "residual.yaml"
    file.write_text(RESIDUAL)
    network = load_network(file)
    with without_second_reads():
        without = planner_course(network, "gemmini_large", seed=0)
    assert planner_course(network, "gemmini_large", seed=0).course[-1][1] < without.course[-1][1]


@pytest.mark.parametrize(("name", "macs"), [("resnet50", 4_089_184_256), ("vgg16", 15_470_264_320),
                                            ("inception_v3", 5_713_216_096), ("mobilenet_v2", 300_774_272)])
def test_networks_have_the_multiply_accumulates_of_their_papers(name: str, macs: int) -> None:
    assert name in INPUTS and network(name).macs == macs
