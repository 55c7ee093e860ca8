"""Results as pandas tables: a row for each of their parts, with the numbers of the result."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from fadiff_mapper import (
    DesignOptions,
    DesignWorkers,
    SearchOptions,
    infer,
    load,
    load_network,
    map_layer,
    map_network,
    search_design,
)
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.search.result import Result

pandas = pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")


def mapped() -> Result:
    spec = load("bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000")
    return map_layer(spec, SearchOptions(effort="light"))


@pandas
def test_a_layer_has_a_row_for_each_level_and_data_space() -> None:
    result = mapped()
    table = result.to_dataframe().set_index(["level", "data_space"])
    for level in result.stats.levels:
        for name, counts in level["dataspaces"].items():
            assert table.loc[(level["name"], name), "reads"] == counts["reads"]


@pandas
def test_a_network_has_a_row_for_each_layer() -> None:
    result = map_network(load_network("bundled:networks/gpt3_6b7_block"), "bundled:arch/gemmini_small")
    table = result.to_dataframe()
    assert len(table) == len(result.workload.layers)
    assert set(table["group"].dropna()) == set(range(1, len(result.groups) + 1))
    assert table["energy_pj"].sum() + result.planned_joined.energy_pj == pytest.approx(result.stats.energy_pj)


@pandas
def test_a_search_has_a_row_for_each_design() -> None:
    options = DesignOptions(method="random", evaluations=2, fuse=False, neighbours=False, prune=False)
    result = search_design("bundled:spaces/gemmini_small", "bundled:networks/gpt3_6b7_block", options,
                           workers=DesignWorkers(jobs=1))
    table = result.to_dataframe()
    assert len(table) == len(result.outcomes) and table["edp"].min() == pytest.approx(result.best.edp)


@pandas
def test_an_inference_has_a_row_for_each_operator_of_each_mapped_step() -> None:
    result = infer("bundled:models/llama3_8b", "bundled:inference/tpu_v4i_like", prompt=64, generate=8)
    table = result.to_dataframe()
    assert len(table) == len(result.operators)
    joules = (table["energy_pj"] * table["steps"]).groupby(table["batch"]).sum() * 1e-12
    assert joules[1] == pytest.approx(result.batches[0].joules)


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    result = mapped()
    monkeypatch.setattr("fadiff_mapper.base.extras.installed", lambda package: False)
    with pytest.raises(FadiffError, match=r'needs pandas.*pip install "fadiff-mapper\[pandas\]"'):
        result.to_dataframe()
