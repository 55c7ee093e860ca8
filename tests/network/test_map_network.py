"""Networks: fused where that helps, never worse than layer by layer, every inner mapping one that Timeloop runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from fadiff_mapper import FadiffError, NetworkOptions, NetworkResult, Workload, load, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.fusion import group_violations
from fadiff_mapper.fusion.prices import CoverPart, chosen, partition, summed
from fadiff_mapper.fusion.segments import chains, runs_in_order, segments
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.output.looptree import to_looptree
from fadiff_mapper.workload import OperatingPoint
from fadiff_mapper.workload.window_slide import WindowSlide

ARCH = str(bundled_files.find("arch/gemmini_large"))
PAIR = """
workload:
  version: 1
  name: pair
  inputs: {input: [1, 64, 14, 14]}
  shapes:
  - {id: dw, op: depthwise, dims: {N: 1, G: 64, M: 1, C: 1, P: 14, Q: 14, R: 3, S: 3}, stride: [1, 1]}
  - {id: pw, op: conv, dims: {N: 1, M: 64, C: 64, P: 14, Q: 14, R: 1, S: 1}, stride: [1, 1]}
  graph:
  - {name: dw, shape: dw, from: [input]}
  - {name: pw, shape: pw, from: [dw]}
"""
ATTENTION = """
workload:
  version: 1
  name: attention
  inputs: {q: [32, 2048, 128], k: [32, 2048, 128], v: [32, 2048, 128]}
  shapes:
  - {id: qk, op: gemm, repeat: 32, dims: {N: 2048, M: 2048, C: 128, P: 1, Q: 1, R: 1, S: 1}, stride: [1, 1]}
  - {id: av, op: gemm, repeat: 32, dims: {N: 2048, M: 128, C: 2048, P: 1, Q: 1, R: 1, S: 1}, stride: [1, 1]}
  graph:
  - {name: qk, shape: qk, from: [q], weights_from: k}
  - {name: av, shape: av, from: [qk], weights_from: v}
"""
POOLED = """
workload:
  version: 1
  name: pooled
  inputs: {input: [1, 3, 56, 56]}
  shapes:
  - {id: wide, op: conv, dims: {N: 1, M: 64, C: 3, P: 56, Q: 56, R: 3, S: 3}, stride: [1, 1]}
  - {id: next, op: conv, dims: {N: 1, M: 64, C: 64, P: 28, Q: 28, R: 3, S: 3}, stride: [1, 1]}
  graph:
  - {name: one, shape: wide, from: [input]}
  - {name: pool, op: maxpool, from: [one], kernel: [2, 2]}
  - {name: two, shape: next, from: [pool]}
"""


@cache
def pair() -> Workload:
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pair.yaml"
        file.write_text(PAIR)
        return load_network(file)


@cache
def fused() -> NetworkResult:
    return map_network(pair(), ARCH, NetworkOptions(threads=1))


def test_without_fusion_a_network_costs_the_sum_of_its_layers() -> None:
    result = map_network(pair(), ARCH, NetworkOptions(fuse=False, threads=1))
    assert result.groups == ()
    assert result.stats == result.unfused_stats
    assert result.stats.energy_pj == sum(one.count * one.stats.energy_pj for one in result.layers)
    assert result.stats.cycles == sum(one.count * one.stats.cycles for one in result.layers)


def test_a_depthwise_and_a_pointwise_layer_are_fused_and_the_plan_is_better() -> None:
    result = fused()
    assert [group.nodes for group in result.groups] == [("dw", "pw")]
    assert result.stats.edp < result.unfused_stats.edp
    assert all(0 <= value <= 1 for group in result.groups for value in group.sigma)


def test_groups_are_legal_and_their_tiles_are_what_the_exact_model_says() -> None:
    result = fused()
    for outcome in result.groups:
        assert group_violations(result.hardware, outcome.group) == []
        for tile in outcome.tiles:
            assert evaluate_mapping(tile.spec, tile.mapping).energy_pj == tile.stats.energy_pj


def test_what_is_written_is_read_back_with_the_same_numbers(tmp_path: Path) -> None:
    from fadiff_mapper import evaluate
    result = fused()
    result.write(tmp_path)
    assert (tmp_path / "plan.yaml").read_text().startswith("plan:")
    inputs = sorted(tmp_path.glob("groups/*/*/fadiff.input.yaml"))
    found = {round(evaluate(load(file)).energy_pj, 3) for file in inputs}
    assert found == {round(tile.stats.energy_pj, 3) for group in result.groups for tile in group.tiles}


def test_a_group_is_an_input_of_looptree() -> None:
    result = fused()
    own = to_looptree(result.groups[0].group, result.hardware, alike=False)
    assert result.to_looptree(1) == result.to_looptree(result.groups[0]) == own
    with pytest.raises(FadiffError, match="group: found 2; accepted: 1 to 1"):
        result.to_looptree(2)


def test_the_same_seed_gives_the_same_plan_and_a_spec_the_same_as_its_files() -> None:
    again = map_network(pair(), load(ARCH, str(bundled_files.find("problems/conv"))), NetworkOptions(threads=2))
    assert again.stats == fused().stats


def test_a_checkpoint_is_continued_and_one_of_another_run_refused(tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    first = map_network(pair(), ARCH, NetworkOptions(fuse=False, threads=1), checkpoint_file=file)
    before = file.read_text()
    again = map_network(pair(), ARCH, NetworkOptions(fuse=False, threads=1), checkpoint_file=file)
    assert again.stats == first.stats and file.read_text() == before
    with pytest.raises(FadiffError, match="the checkpoint has seed '0', this run '1'"):
        map_network(pair(), ARCH, seed=1, checkpoint_file=file)
    file.write_text("{")
    with pytest.raises(FadiffError, match="not a checkpoint that can be read"):
        map_network(pair(), ARCH, checkpoint_file=file)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "said"), [
    (lambda saved: saved["layers"]["1"]["mapping"][2].update(type={}),
     r"saved\.json: layers\.1\.mapping\[2\]\.type: found a mapping; accepted: temporal, "),
    (lambda saved: saved["layers"]["1"]["mapping"][1].update(factors="M=7"),
     r"saved\.json: layers\.1\.mapping: product of all factors"),
    (lambda saved: saved["layers"]["0"].pop("mapping"), r"saved\.json: layers\.0: the entry is not whole; accepted: "),
    (lambda saved: saved["layers"]["0"].update(evaluations=float("inf")), r"saved\.json: layers\.0: the entry is not"),
    (lambda saved: saved["groups"].update(dict.fromkeys(saved["groups"], 5)), r"groups\.\w{64}: the entry is not"),
    (lambda saved: [batch.pop("strategies") for batch in saved["groups"].values()],
     r"groups\.\w{64}: the entry is not"),
    (lambda saved: [batch.update(groups=[[[["x", []]]]]) for batch in saved["groups"].values()],
     r"groups\.\w{64}: the entry is not")])
def test_a_broken_entry_of_a_checkpoint_is_told_with_its_place(
        change: Callable[[dict[str, Any]], object], said: str, tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    options = NetworkOptions(threads=1, longest=2)
    map_network(pair(), ARCH, options, checkpoint_file=file)
    saved = json.loads(file.read_text())
    change(saved)
    file.write_text(json.dumps(saved))
    with pytest.raises(FadiffError, match=said) as caught:
        map_network(pair(), ARCH, options, checkpoint_file=file)
    assert "Error(" not in str(caught.value)


def test_a_pipe_is_no_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.json"
    os.mkfifo(file)
    with pytest.raises(FadiffError, match="is not a regular file; accepted: a checkpoint"):
        map_network(pair(), ARCH, checkpoint_file=file)


def test_a_checkpoint_of_the_same_layers_in_another_graph_is_refused(tmp_path: Path) -> None:
    net, file = tmp_path / "net.yaml", tmp_path / "saved.json"
    net.write_text(PAIR)
    map_network(load_network(net), ARCH, NetworkOptions(fuse=False, threads=1), checkpoint_file=file)
    net.write_text(PAIR.replace("{name: pw, shape: pw, from: [dw]}", "{name: other, shape: pw, from: [dw]}"))
    with pytest.raises(FadiffError, match="the checkpoint has links_of"):
        map_network(load_network(net), ARCH, checkpoint_file=file)


def test_a_network_may_be_a_file_over_which_no_result_is_written(tmp_path: Path) -> None:
    net, options = tmp_path / "plan.yaml", NetworkOptions(fuse=False, threads=1)
    net.write_text(PAIR)
    assert map_network(str(net), ARCH, options).stats == map_network(pair(), ARCH, options).stats
    with pytest.raises(FadiffError, match=r"plan\.yaml: cannot be written: this command reads it"):
        map_network(net, ARCH, options, output=tmp_path)
    with pytest.raises(FadiffError, match="a network: found int; accepted: a network file"):
        map_network(3, ARCH)


def started(folder: Path, name: str) -> subprocess.Popen[str]:
    """The command on the pair, in a process of its own."""
    (folder / "pair.yaml").write_text(PAIR)
    return subprocess.Popen([sys.executable, "-m", "fadiff_mapper", "network", str(folder / "pair.yaml"), ARCH, "-o",
                             str(folder / name), "--jobs", "1", "--energy", "bundled"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], file: Path, part: str) -> None:
    """Waits until a part of the checkpoint has something in it."""
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and json.loads(file.read_text())[part]:
            return
        time.sleep(0.005)
    raise AssertionError(f"{part} of {file}: {process.communicate()}")


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_and_finds_what_it_would_have_found(tmp_path: Path) -> None:
    with started(tmp_path, "whole") as whole:
        assert whole.wait() == 0
    file = tmp_path / "killed" / "fadiff.checkpoint.json"
    with started(tmp_path, "killed") as process:
        until(process, file, "groups")
        process.kill()
    assert process.returncode == -signal.SIGKILL and not (tmp_path / "killed/plan.yaml").exists()
    known = json.loads(file.read_text())
    with started(tmp_path, "killed") as process:
        assert process.wait() == 0
    assert known["groups"].items() <= json.loads(file.read_text())["groups"].items()
    plans = [(tmp_path / name / "plan.yaml").read_text() for name in ("whole", "killed")]
    assert plans[0] == plans[1] and "number: 1" in plans[0]


def test_ctrl_c_writes_the_best_plan_so_far(tmp_path: Path) -> None:
    with started(tmp_path, "out") as process:
        until(process, tmp_path / "out/fadiff.checkpoint.json", "layers")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "interrupted: the best plan so far" in (tmp_path / "out/plan.yaml").read_text()


def test_a_time_limit_ends_the_run_with_what_is_there() -> None:
    result = map_network(load_network("bundled:networks/mobilenet_v1"), ARCH, NetworkOptions(time_limit=1, threads=2))
    assert result.status == "out of time after 1 s: the best plan so far" and result.time_s < 20
    assert result.stats.edp <= result.unfused_stats.edp


def test_a_time_limit_that_ends_at_once_still_leaves_layers_near_their_best_mappings() -> None:
    least = map_network(pair(), ARCH, NetworkOptions(time_limit=1e-3, threads=1)).unfused_stats.edp
    assert least <= 1.05 * map_network(pair(), ARCH, NetworkOptions(fuse=False, threads=1)).unfused_stats.edp


@pytest.mark.parametrize(("options", "sentence"), [
    ({"metric": "area"}, "metric: found 'area'; accepted: edp, energy, delay"),
    ({"model": "other"}, "model: found 'other'; accepted: refined, paper"),
    ({"longest": 1}, "longest: found 1; accepted: a whole number from 2 to 16"),
    ({"gap": -1.0}, "gap: found -1.0; accepted: a share of 0 or more, such as 0.01")])
def test_options_of_the_wrong_kind_are_named(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(FadiffError, match=sentence):
        map_network(pair(), ARCH, NetworkOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", ["-1", "inf", "nan"])
def test_the_command_refuses_a_gap_that_is_no_share(gap: str, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    net = tmp_path / "pair.yaml"
    net.write_text(PAIR)
    assert main(["network", str(net), "bundled:arch/gemmini_large", "-o", str(tmp_path / "out"), "--gap", gap]) == 2
    assert f"gap: found {float(gap)}; accepted: a share of 0 or more, such as 0.01" in capsys.readouterr().err


def test_the_command_writes_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = tmp_path / "pair.yaml"
    net.write_text(PAIR)
    assert main(["network", str(net), "bundled:arch/gemmini_large", "-o", str(tmp_path / "out"), "--jobs", "1",
                 "--energy", "bundled"]) == 0
    assert "dw + pw" in capsys.readouterr().out
    assert (tmp_path / "out/plan.yaml").exists() and (tmp_path / "out/layers/dw/timeloop-mapper.map.yaml").exists()


def test_every_mapping_is_what_real_timeloop_says(tmp_path: Path) -> None:
    from fadiff_mapper.timeloop.verify import real_model, verify
    try:
        program = real_model()
    except FadiffError:
        pytest.skip("there is no timeloop-model on the PATH")
    result = fused()
    for tile in (tile for group in result.groups for tile in group.tiles):
        assert verify(tile.spec, tile.mapping, tile.stats, program).equal


def test_a_group_is_found_although_the_best_estimates_cannot_be_mapped(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(ATTENTION)
    assert map_network(load_network(file), ARCH, NetworkOptions(threads=1)).gain > 0.3


def test_a_residual_network_makes_one_chain_and_only_segments_that_can_run_in_one_go() -> None:
    network = load_network("bundled:networks/resnet18")
    assert len(max((names for names, _ in chains(network)), key=len)) == 18
    found = segments(network, 4)
    assert all(runs_in_order(network, [segment.nodes]) for segment in found)


def test_a_pool_between_two_layers_is_part_of_their_link() -> None:
    network = load_network("bundled:networks/resnet18")
    (link,) = next(segment.links for segment in segments(network, 2) if segment.nodes[0] == "conv1")
    assert link.pooled == {"P": WindowSlide(3, 2, 1, 1), "Q": WindowSlide(3, 2, 1, 1)} and link.padding == {"P": 1,
                                                                                                            "Q": 1}
    assert link.written_pooled  # the residual path reads what the pool makes


def test_two_layers_with_a_pool_between_them_are_fused(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(POOLED)
    result = map_network(load_network(file), ARCH, NetworkOptions(threads=1))
    (outcome,) = result.groups
    assert result.stats.edp < result.unfused_stats.edp and group_violations(result.hardware, outcome.group) == []
    result.write(tmp_path / "out")
    (link,) = yaml.safe_load((tmp_path / "out/plan.yaml").read_text())["plan"]["groups"][0]["intermediates"]
    assert link["pooled"] == {"P": {"kernel": 2, "stride": 2, "pad": 0}, "Q": {"kernel": 2, "stride": 2, "pad": 0}}
    assert "is pooled on the way" in (tmp_path / "out/groups/1/looptree.txt").read_text()


def test_nothing_is_fused_through_a_pool_where_others_read_what_lies_before_it(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(POOLED)
    assert [segment.nodes for segment in segments(load_network(file), 2)] == [("one", "two")]
    file.write_text(POOLED + "  - {name: other, op: relu, from: [one]}\n")
    assert segments(load_network(file), 2) == []


def test_a_partition_takes_the_groups_that_help_and_no_others() -> None:
    alone = {name: OperatingPoint(10.0, 10.0) for name in "abcd"}
    ways = [CoverPart(("a", "b"), OperatingPoint(18.0, 18.0), "ab"),
            CoverPart(("b", "c"), OperatingPoint(12.0, 12.0), "bc"),
            CoverPart(("c", "d"), OperatingPoint(19.0, 19.0), "cd"),
            CoverPart(("a", "b", "c"), OperatingPoint(40.0, 40.0), "abc")]
    assert [way.plan for way in partition([("a", "b", "c", "d")], alone, ways)] == ["bc"]
    assert partition([("a", "b", "c", "d")], alone, ways[3:]) == []


def test_energy_is_traded_against_cycles_where_the_product_of_the_sums_gains() -> None:
    ways = [[OperatingPoint(10.0, 10.0), OperatingPoint(6.0, 14.0)], [OperatingPoint(1.0, 100.0)]]
    picks = chosen(ways)
    assert picks == [1, 0]
    assert summed([ways[0][1], ways[1][0]]).edp < summed([ways[0][0], ways[1][0]]).edp
