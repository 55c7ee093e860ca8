"""Mappings evaluated side by side have the statistics that each has by itself, and layers share what may be shared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fadiff_mapper import load
from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, evaluate_nests, layer_of, layers_of
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.search.layer_family import first_of
from fadiff_mapper.search.mapping_task import mapping_task

LAYERS = ("resnet18/conv3x3_64_64_56_s1", "resnet18/conv3x3_64_128_28_s2", "mobilenet_v1/dw3x3_512_14_s1",
          "vgg16/conv3x3_512_512_14_s1", "mobilenet_v1/conv1x1_64_128_56_s1")


def specs_on(design: str) -> list[Spec]:
    return [load(f"bundled:arch/{design}", f"bundled:layers/{name}") for name in LAYERS]


def first_mapping(spec: Spec) -> Nest:
    nest = first_of(mapping_task(spec).family, 0)
    assert nest is not None
    return nest


@pytest.mark.parametrize("design", bundled_files.designs())
def test_statistics_of_a_batch_are_those_of_each_mapping_and_the_kernels_to_the_last_bit(design: str) -> None:
    specs = specs_on(design)
    nests = [first_mapping(spec) for spec in specs]
    found = evaluate_nests(specs, layers_of(specs), nests)
    for spec, nest, stats in zip(specs, nests, found, strict=True):
        alone = evaluate_mapping(spec, with_reuse(unpack(nest, 0, spec.problem), spec.constraints))
        scores = score(layer_of(spec), nest)
        assert stats.to_dict() == alone.to_dict()
        assert (stats.energy_pj, stats.cycles) == (scores.energy[0], scores.cycles[0])


def test_each_result_names_the_sources_of_its_own_tables() -> None:
    first, second = specs_on("gemmini_large")[:2]
    renamed = tuple(replace(table, source="elsewhere") for table in first.tables.ert)
    second = replace(first, problem=second.problem, tables=replace(first.tables, ert=renamed))
    specs = [first, second]
    named = [stats.energy_source for stats in evaluate_nests(specs, layers_of(specs),
                                                                    [first_mapping(spec) for spec in specs])]
    assert set(named[1].values()) == {"elsewhere"}
    assert named[0] != named[1]


def test_layers_share_constants_on_one_design_and_on_no_other() -> None:
    first, second = specs_on("gemmini_large")[0], specs_on("gemmini_large")[3]
    dearer = replace(first, tables=replace(first.tables, ert=tuple(
        replace(table, actions={name: 2 * energy for name, energy in table.actions.items()})
        for table in first.tables.ert)))
    forgetful = replace(first, constraints=replace(first.constraints, levels=tuple(
        replace(level, no_coalesce=frozenset({"Inputs"})) for level in first.constraints.levels)))
    layers = layers_of([first, second, dearer, forgetful])
    assert layers[0].compiled is layers[1].compiled
    assert [layer.problem for layer in layers[:2]] == [first.problem, second.problem]
    assert len({id(layer.compiled) for layer in layers}) == 3
