"""An inference whose steps run in fused groups, each as `map_network` plans it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fadiff_mapper import InferenceResult, NetworkOptions, infer, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.inference.blocks import layer_network
from fadiff_mapper.inference.infer import GROUP
from fadiff_mapper.inference.language_model import LanguageModel, described

TINY = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 1024}
DEEP, GEMMINI = "depth: 67108864", "bundled:arch/gemmini_large"


@pytest.fixture(scope="module")
def small_chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TPU whose buffer does not hold the weights, so that they come from DRAM."""
    text, file = bundled_files.find("inference/tpu_v4i_like").read_text(), tmp_path_factory.mktemp("small") / "tpu.yaml"
    assert DEEP in text
    file.write_text(text.replace(DEEP, "depth: 262144"))
    return file


@pytest.fixture(scope="module")
def inferred(small_chip: Path) -> Callable[[bool], InferenceResult]:
    found = {fuse: infer(TINY, small_chip, batch=(1, 4), prompt=256, generate=40, fuse=fuse) for fuse in (False, True)}
    return found.__getitem__


def test_every_step_costs_what_its_plan_costs(inferred: Callable[[bool], InferenceResult], small_chip: Path) -> None:
    model = described(TINY)
    assert isinstance(model, LanguageModel)
    (layers,) = model.layers
    for phase, tokens, cached in (("prefill", 256, 0), ("decode", 1, 255)):
        plan = map_network(layer_network(model, layers, 4, tokens, cached), small_chip, NetworkOptions(threads=1))
        own = [share for share in inferred(True).operators
               if (share.phase, share.batch, share.layers, share.length) == (phase, 4, layers.name, 256)]
        assert sum(share.energy_pj for share in own) == pytest.approx(2 * plan.stats.energy_pj)    # two layers
        assert sum(share.cycles for share in own) == pytest.approx(2 * plan.stats.cycles, abs=4)
        assert [share.operator for share in own if share.kind == GROUP] == [
            " + ".join(group.nodes) for group in plan.groups]


def test_groups_take_less_and_leave_no_work_out(inferred: Callable[[bool], InferenceResult]) -> None:
    plain, fused = inferred(False), inferred(True)
    for before, after in zip(plain.batches, fused.batches, strict=True):
        assert after.first_token_s < 0.9 * before.first_token_s and after.tokens_per_s > before.tokens_per_s
        assert after.joules < before.joules
    for count in ("macs", "operations"):
        assert sum(getattr(share, count) for share in fused.operators) == sum(
            getattr(share, count) for share in plain.operators)
    attention = next(share for share in fused.operators if share.kind == GROUP and "attention.values" in share.operator)
    assert (attention.unit, attention.bound) == ("MAC and VectorUnit", "VectorUnit")
    assert attention.cycles == attention.busy["VectorUnit"] > attention.busy["MAC"] > attention.busy["DRAM"] > 0
    assert 0 < attention.outermost_words <= attention.busy["DRAM"] * 292.38 * (1 + 1e-12)
    assert not any(share.kind == GROUP for share in plain.operators)
    assert plain.order == "Operators run in turn: fused groups (--fuse) are not looked for."
    assert attention.operator in fused.order


def test_without_units_groups_are_bound_by_the_array_or_a_memory() -> None:
    wide = TINY | {"hidden_size": 512, "intermediate_size": 2048}   # weights beyond the scratchpad
    result = infer(wide, GEMMINI, prompt=256, generate=1, fuse=True)
    groups = [share for share in result.operators if share.kind == GROUP]
    array = result.mapped[0].spec.arch.arithmetic.name
    assert groups and {share.unit for share in groups} == {array}
    assert all(share.cycles == share.busy[array] >= share.busy["DRAM"] > 0 for share in groups)


def test_the_command_says_which_operators_are_fused(small_chip: Path, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    command = ["infer", str(tmp_path / "config.json"), str(small_chip), "--prompt", "256", "--generate", "2"]
    for flags, said in (([], "fused groups (--fuse) are not looked for"),
                        (["--fuse"], "tile by tile in fused groups: attention.q + attention.scores")):
        assert main([*command, *flags, "-o", str(tmp_path / "out")]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
        assert said in (tmp_path / "out" / "inference.html").read_text()
        assert json.loads((tmp_path / "out" / "fadiff.inference.json").read_text())["fuse"] == bool(flags)


def test_bits_and_profiles_have_no_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FadiffError, match="fuse: found with bits; accepted: one of them"):
        infer(TINY, GEMMINI, prompt=16, generate=1, fuse=True, bits={"Weights": 8})
    with pytest.raises(FadiffError, match="serving_profile: found fuse=True; accepted: fuse=False"):
        infer(TINY, GEMMINI, prompt=16, generate=1, fuse=True, serving_profile=True, output=tmp_path / "out")
    assert main(["infer", "bundled:models/llama3_8b", GEMMINI, "--fuse", "--bits", "Weights=8", "-o",
                 str(tmp_path / "out")]) == 2
    assert "fuse: found with bits" in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "out").exists()
