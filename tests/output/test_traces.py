"""Traces of plans and inferences, read as a viewer reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from trace_events import Slice, loaded

from fadiff_mapper import NetworkOptions, NetworkResult, infer, map_network
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.output.chrome_trace import GROUPS, TraceSlice, plan_trace, trace_json
from fadiff_mapper.output.inference_files import trace
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.workload import Node, Workload, build_workload, make_operator

TPU, GEMMINI = "bundled:inference/tpu_v4i_like", "bundled:arch/gemmini_large"
TOKENS, SIZE, HEADS = 256, 64, 2


def attention() -> Workload:
    """A norm, attention, and a sum with the norm's input."""
    def product(name: str, *inputs: str, summed: int, columns: int) -> Node:
        layer = make_operator("gemm", {"N": TOKENS, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1},
                              repeat=HEADS)
        return Node(name, "gemm", inputs, layer=layer, operands=("Inputs", "Weights"))
    x = (HEADS, TOKENS, SIZE)
    return build_workload("attention", [
        Node("x", "input", shape=x), Node("k", "input", shape=(HEADS, SIZE, TOKENS)), Node("v", "input", shape=x),
        Node("norm", "layernorm", ("x",), x, axes=(-1,), constants=((SIZE,), (SIZE,))),
        product("qk", "norm", "k", summed=SIZE, columns=TOKENS),
        Node("softmax", "softmax", ("qk",), (HEADS, TOKENS, TOKENS), axes=(-1,)),
        product("av", "softmax", "v", summed=TOKENS, columns=SIZE), Node("sum", "add", ("av", "x"), x)])


def plan(design: str, fuse: bool) -> NetworkResult:
    return map_network(attention(), design, NetworkOptions(threads=1, fuse=fuse))


def end(slices: list[Slice]) -> float:
    return max(own.start + own.length for own in slices)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("design", [TPU, GEMMINI])
def test_the_trace_of_a_plan_is_as_long_as_the_plan(design: str, fuse: bool) -> None:
    result = plan(design, fuse)
    slices = loaded(plan_trace(result))
    cycle = 1e6 / 1.05e9 if design == TPU else 1e-3  # microseconds
    assert end(slices) == pytest.approx(result.stats.cycles * cycle, abs=2 * cycle)
    assert {own.process for own in slices} == {f"attention on {result.design}"}
    assert {own.name for own in slices} >= {"qk", "av"}
    assert sum(own.details["pJ"] for own in slices if own.row != GROUPS) == pytest.approx(result.stats.energy_pj)
    assert [own.name for own in slices if own.row == GROUPS] == [
        f"group {number}" for number in range(1, len(result.groups) + 1)]


def test_without_a_clock_a_microsecond_is_a_cycle(tmp_path: Path) -> None:
    text = find("arch/gemmini_large").read_text()
    (tmp_path / "design.yaml").write_text(re.sub(r"global_cycle_seconds: [^,}\n]*,? ?", "", text))
    result = plan(str(tmp_path / "design.yaml"), True)
    said = plan_trace(result)
    assert end(loaded(said)) == pytest.approx(result.stats.cycles, abs=1e-3)
    assert json.loads(said)["otherData"] == {"time": "a microsecond stands for a cycle"}


def test_units_of_a_group_work_side_by_side_in_rows_of_their_own() -> None:
    result = plan(TPU, True)
    (group,) = result.groups
    assert group.group.side_by_side
    slices = {own.name: own for own in loaded(plan_trace(result))}
    whole, cycle = slices["group 1"], 1e6 / 1.05e9
    assert slices["softmax"].start == slices["qk"].start == whole.start == slices["norm"].length
    assert slices["softmax"].row == "VectorUnit" and slices["qk"].row == result.hardware.arch.arithmetic.name
    assert slices["softmax"].length == pytest.approx(group.cost.operators[0].cycles * HEADS * cycle, abs=1e-3)
    assert end([slices[name] for name in ("qk", "softmax", "av")]) <= slices["sum"].start + 1e-9
    assert slices["sum"].start == pytest.approx(end([whole]))


def test_the_trace_of_an_inference_has_operators_in_turn() -> None:
    tiny = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 1024}
    result = infer(tiny, TPU, batch=(2, 1), prompt=100, generate=40)
    slices = loaded(trace(result))
    for outcome in result.batches:
        own = [each for each in slices if each.process == f"batch {outcome.batch}"]
        assert [each.start for each in own[1:]] == pytest.approx([each.start + each.length for each in own[:-1]])
        assert end([each for each in own if each.category == "prefill"]) == pytest.approx(
            outcome.first_token_s * 1e6, abs=1e-3)


def changed(event: int, **values: Any) -> str:
    text = trace_json({1: ("p", [TraceSlice("a", "first", "c", 0, 2), TraceSlice("a", "second", "c", 2, 1)])})
    document = json.loads(text)
    document["traceEvents"][event].update(values)
    return json.dumps(document)


@pytest.mark.parametrize(("event", "values"), [
    (3, {"ts": 1}), (3, {"ts": 1.999}), (3, {"dur": 1.0004}), (1, {"tid": 0}), (1, {"tid": 1}),
    (3, {"ph": "B"}), (2, {"dur": -1}), (2, {"pid": 2}), (2, {"tid": 7}), (2, {"ts": "0"}),
    (1, {"name": "threadname"}), (0, {"ph": "X"})])
def test_the_reader_refuses_what_no_viewer_could_draw(event: int, values: dict[str, Any]) -> None:
    assert len(loaded(changed(0))) == 2
    with pytest.raises((AssertionError, KeyError)):
        loaded(changed(event, **values))


def test_the_page_has_the_roofline_and_the_time_of_each_unit() -> None:
    page = network_html(plan(TPU, True))
    assert "<h2>Roofline</h2>" in page and "group 1: " in page and "MAC/cycle" in page
    result = plan(TPU, True)
    (cycles,) = (total.cycles for total in result.units().values())
    assert '<div>VectorUnit</div><span>' in page and f'<data value="{float(cycles)}">' in page
    assert "Time of each unit" not in network_html(plan(GEMMINI, True))
