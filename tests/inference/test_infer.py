"""Inference against rooflines, independent counts and mapped lengths; bad input is one line and writes nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fadiff_mapper import FadiffError, InferenceResult, infer
from fadiff_mapper.api import load, read_model
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.inference.infer import NOT_COUNTED, lengths_of
from fadiff_mapper.output import INFERENCE_FILES

MODEL, TPU = "bundled:models/llama3_8b", "bundled:inference/tpu_v4i_like"
CLOCK, DRAM, MACS = 1.05e9, 292.38, 4 * 128 * 128  # cycles a second, words and multiply-accumulates a cycle
TINY = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 1024}


@pytest.fixture(scope="module")
def llama() -> InferenceResult:
    return infer(MODEL, TPU, batch=(1, 64), prompt=2048, generate=512)


@pytest.mark.slow
def test_decode_is_at_the_roofline_of_memory(llama: InferenceResult) -> None:
    """A token reads every weight but the embedding's, and the cache: 7.5 G words and 128 k words a token before."""
    for outcome, within in zip(llama.batches, (1.1, 2.0), strict=True):  # scores of many sequences add their own time
        length, seconds, _ = outcome.steps[-1]
        weights = outcome.weight_words - 128256 * 4096
        least = (weights + outcome.batch * length * 2 * 8 * 128 * 32) / DRAM / CLOCK
        assert length == 2048 + 511
        assert least <= seconds <= within * least


def test_prefill_is_at_the_roofline_of_the_array(llama: InferenceResult) -> None:
    """Products of 2,048 tokens are bound by the array, but for attention, whose scores go to DRAM and back."""
    products = [share for share in llama.operators if share.phase == "prefill" and share.macs and share.batch == 1]
    macs = sum(share.macs for share in products)
    assert macs == 32 * 481_036_337_152 + 4096 * 128256
    assert macs / MACS <= sum(share.cycles for share in products) <= 1.25 * macs / MACS
    whole = sum(share.cycles for share in llama.operators if share.phase == "prefill" and share.batch == 1)
    assert llama.batches[0].first_token_s == pytest.approx(whole / CLOCK)


def test_operations_equal_a_formula_of_the_model(llama: InferenceResult) -> None:
    def operations(rows: int, scores: int) -> int:
        """Of a layer: two norms, rotary queries and keys of 40 heads, the softmax, silu and its product, two sums."""
        norms = 2 * rows * (3 * 4096 + 4)
        rotary = rows * 40 * (3 * 128 + 64)
        return norms + rotary + 5 * scores + rows * 14336 * 5 + 2 * rows * 4096
    for step, rows, scores in ((("prefill", 1, 2048), 2048, 32 * 2048 ** 2),
                               (("decode", 64, 2560), 64, 64 * 32 * 2560)):
        found = sum(share.operations for share in llama.operators if share.layers == "dense"
                    and (share.phase, share.batch, share.length) == step)
        assert found == 32 * operations(rows, scores)


@pytest.mark.slow
def test_lengths_between_mapped_ones_are_within_one_percent_of_mapped_ones(llama: InferenceResult) -> None:
    assert lengths_of(llama.model, 2048, 512) == (2048, 2304, 2560)
    for length in (2176, 2432):
        exact = infer(MODEL, TPU, batch=(1, 64), prompt=length - 1, generate=2)
        assert lengths_of(llama.model, length - 1, 2) == (length,)
        for ours, mapped in zip(llama.batches, exact.batches, strict=True):
            between = next(step for step in ours.steps if step[0] == length)
            assert between[1:] == pytest.approx(mapped.steps[0][1:], rel=0.01)


def test_shares_add_up_to_the_whole(llama: InferenceResult) -> None:
    for outcome in llama.batches:
        for names in (("bound",), ("unit",), ("phase", "operator")):
            shares = llama.shares(outcome.batch, *names).values()
            assert sum(seconds for seconds, _ in shares) == pytest.approx(outcome.seconds)
            assert sum(joules for _, joules in shares) == pytest.approx(outcome.joules)
        for phase, whole in (("prefill", outcome.first_token_s), ("decode", outcome.seconds - outcome.first_token_s)):
            busy = llama.busy(outcome.batch, phase)
            assert next(iter(busy)) == ("VectorUnit" if phase == "prefill" else "DRAM")
            assert max(busy.values()) < whole < sum(busy.values())
            words = sum(share.steps * share.outermost_words for share in llama.operators
                        if (share.phase, share.batch) == (phase, outcome.batch))
            assert busy["DRAM"] == pytest.approx(words / DRAM / CLOCK, rel=0.001)
    assert llama.uncounted() == {}
    assert {key for (key,) in llama.shares(1, "unit")} == {"MAC", "VectorUnit"}


def test_operations_without_a_unit_are_named_and_cost_nothing(tmp_path: Path,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    result = infer(TINY, "bundled:arch/weight_stationary", prompt=128, generate=2)
    (operators, operations), = result.uncounted().values()
    assert operators > 0
    assert operations == sum(round(share.steps * share.operations) for share in result.operators)
    assert all(share.cycles == 0 for share in result.operators if share.unit == NOT_COUNTED)
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert main(["infer", str(tmp_path / "config.json"), "bundled:arch/weight_stationary", "--prompt", "128",
                 "--generate", "2", "-o", str(tmp_path / "out")]) == 0
    assert f"not counted at batch 1: {operations:,} operations of" in " ".join(capsys.readouterr().out.split())


def test_files_have_every_number(tmp_path: Path) -> None:
    result = infer(TINY, TPU, batch=[2, 1], prompt=100, generate=40, frequency=1e9, output=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} - {".fadiff.lock"} == set(INFERENCE_FILES)
    rows = list(csv.DictReader((tmp_path / "out" / "operators.csv").open()))
    assert len(rows) == len(result.operators)
    tokens = list(csv.DictReader((tmp_path / "out" / "tokens.csv").open()))
    assert [sum(float(row["seconds"]) for row in tokens if row["batch"] == str(outcome.batch))
            for outcome in result.batches] == pytest.approx([outcome.seconds for outcome in result.batches])
    record = json.loads((tmp_path / "out" / "fadiff.inference.json").read_text())
    assert [entry["tokens_per_s"] for entry in record["batches"]] == [each.tokens_per_s for each in result.batches]
    events = json.loads((tmp_path / "out" / "trace.json").read_text())["traceEvents"]
    for outcome in result.batches:  # one behind the other, as long as the prefill and the last mapped step
        own = [event for event in events if event["ph"] == "X" and event["pid"] == outcome.batch]
        assert [event["ts"] + event["dur"] for event in own[:-1]] == pytest.approx([event["ts"] for event in own[1:]])
        prefill = [event["dur"] for event in own if event["cat"] == "prefill"]
        assert sum(prefill) == pytest.approx(outcome.first_token_s * 1e6, abs=1e-3)
        assert sum(event["name"].endswith("mlp.down") for event in own) == 2 * 2  # layers and steps
    page = (tmp_path / "out" / "inference.html").read_text()
    assert f'value="{result.batches[0].first_token_s}"' in page
    for outcome in result.batches:  # the ends of the curves of memory
        assert f"batch {outcome.batch}: {1e-9 * (outcome.weight_words + outcome.cache_words):.4g} G words" in page
    assert result.batches[0].tokens == 80


@pytest.mark.slow
def test_a_cache_that_does_not_fit_goes_to_the_next_memory(tmp_path: Path) -> None:
    text = bundled_files.find("inference/tpu_v4i_like").read_text()
    text = text.replace("depth: 67108864", "depth: 65536").replace("datawidth: 16, shared_bandwidth: 292.38", (
        "datawidth: 16, depth: 16777216, shared_bandwidth: 292.38"))
    before = "  - !Component                      # 614 GB/s"
    ddr = ("  - !Component\n    name: DDR\n    class: DRAM\n"
           "    attributes: {width: 16, datawidth: 16, shared_bandwidth: 10}\n")
    text = text.replace(before, ddr + before)
    (tmp_path / "tpu.yaml").write_text(text)
    small, large = infer(TINY, tmp_path / "tpu.yaml", batch=(1, 64), prompt=128, generate=12).batches
    assert (small.weights_in, small.cache_in, large.weights_in, large.cache_in) == ("DRAM", "DRAM", "DRAM", "DDR")
    plain, = infer(TINY, TPU, batch=(64,), prompt=128, generate=12).batches  # a model that the GlobalBuffer holds
    assert plain.cache_in == "GlobalBuffer"
    least = 64 * 139 * 2 * 2 * 256 / 10 / CLOCK
    assert plain.steps[-1][1] < least <= large.steps[-1][1] < 4 * least


@pytest.mark.slow
def test_bits_of_elements_divide_what_memory_bounds(llama: InferenceResult) -> None:
    """Weights of 4 bits and a cache of 8 in words of 16: a quarter and half of the words, and the same operations."""
    thin = infer(MODEL, TPU, batch=(1,), prompt=2048, generate=512, bits={"Weights": 4, "Cache": 8})

    def cycles(result: InferenceResult, *names: str) -> float:
        return sum(share.cycles for share in result.operators if share.operator in names
                   and (share.phase, share.batch, share.length) == ("decode", 1, 2560))
    weights, cache = ("mlp.up", "mlp.gate", "mlp.down", "attention.q", "head"), ("attention.scores", "attention.values")
    assert cycles(thin, *weights) == pytest.approx(cycles(llama, *weights) / 4, rel=0.001)
    keys, others = 128 * 2560, 4 * (128 + 2560)  # queries and scores keep theirs
    least = 32 * 8 * 2 * (keys / 2 + others) / DRAM
    assert cycles(thin, *cache) == pytest.approx(least, rel=0.002)
    assert cycles(llama, *cache) == pytest.approx(least * (keys + others) / (keys / 2 + others), rel=0.002)
    assert cycles(thin, "attention.softmax") == cycles(llama, "attention.softmax")
    words = {"Weights": 16, "Cache": 16, "Activations": 16}
    whole = infer(MODEL, TPU, batch=(1,), prompt=2048, generate=512, bits=words)
    assert whole.batches[0] == llama.batches[0]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "design"), [
    ("gemma2_9b", "tpu_v4i_like"), ("mixtral_8x7b", "tpu_v4i_like"), ("deepseek_v3", "tpu_v4i_like"),
    ("gpt3_6b7", "fusemax_like"), ("gpt3_6b7", "mobile_npu")])
def test_bundled_designs_run_all_operators_of_bundled_models(model: str, design: str) -> None:
    result = infer(f"bundled:models/{model}", f"bundled:inference/{design}", prompt=128, generate=2, energy="estimate")
    (outcome,) = result.batches
    assert result.uncounted() == {}
    assert all(share.cycles > 0 for share in result.operators)
    assert result.words_per_cycle is not None
    read = sum(share.steps * share.outermost_words for share in result.operators
               if share.phase == "decode" and share.macs)
    assert outcome.steps[0][1] >= read / result.words_per_cycle * result.cycle_s
    if not any(layers.experts for layers in result.model.layers):  # of experts a token reads those that it uses
        assert read >= outcome.weight_words - result.model.vocabulary * result.model.width * (not result.model.tied)


def test_one_token_has_no_further_steps() -> None:
    (outcome,) = infer(TINY, TPU, prompt=64, generate=1).batches
    assert (outcome.steps, outcome.tokens, outcome.seconds) == ((), 1, outcome.first_token_s)


@pytest.mark.parametrize(("arguments", "message"), [
    (["--batch", "0"], 'argument --batch: found "0"; accepted: whole numbers >= 1'),
    (["--batch", "1,1"], "batch: found 1, 1; accepted: each number once"),
    (["--prompt", "8000"], "prompt: found 8000 tokens and 512 to generate, llama3_8b is made for 8192"),
    (["--generate", "0"], "generate: found 0; accepted: a whole number >= 1"),
    (["--bits", "Weights=0"], "bits: Weights: found 0; accepted: a whole number from 1 to 256"),
    (["--bits", "Wights=4"], 'bits: Wights: unknown tensor "Wights" (did you mean "Weights"?)'),
    (["--bits", "auto"], "bits: found a string ('auto'); accepted: a mapping"),
    (["--frequency", "0"], "frequency: found 0.0; accepted: cycles a second > 0"),
])
def test_a_number_out_of_range_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str],
                                           message: str) -> None:
    try:
        code = main(["infer", MODEL, TPU, "-o", str(tmp_path / "out"), *arguments])
    except SystemExit as error:
        code = int(error.code or 0)
    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1)
    assert message in error
    assert not list((tmp_path / "out").glob("*.csv"))


def test_an_operation_that_no_unit_does_is_one_line(tmp_path: Path) -> None:
    text = bundled_files.find("inference/tpu_v4i_like").read_text().replace("exp: {mac: 6}, ", "")
    (tmp_path / "tpu.yaml").write_text(text)
    with pytest.raises(FadiffError, match=r"\(softmax\): no unit of the design does exp .*found: VectorUnit with mac"):
        infer(TINY, tmp_path / "tpu.yaml", prompt=64, generate=1, output=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.csv"))


def test_a_design_without_a_clock_needs_a_frequency(tmp_path: Path) -> None:
    text = bundled_files.find("inference/tpu_v4i_like").read_text()
    (tmp_path / "tpu.yaml").write_text(text.replace(", global_cycle_seconds: 9.523809523809524e-10", ""))
    with pytest.raises(FadiffError, match=r"the design has no clock; accepted: global_cycle_seconds .*--frequency"):
        infer(TINY, tmp_path / "tpu.yaml", prompt=64, generate=1)
    given = infer(TINY, tmp_path / "tpu.yaml", prompt=64, generate=1, frequency=1.05e9)
    assert given.batches[0].seconds == pytest.approx(infer(TINY, TPU, prompt=64, generate=1).batches[0].seconds)


def test_models_and_designs_may_have_been_read() -> None:
    model, spec = read_model(TINY), load(TPU, "bundled:layers/llama3_8b_decode/fc_4096_1024")
    result = infer(model, spec, prompt=64, generate=1)
    assert result.model is model
    assert result.uncounted() == {}
    assert result.batches == infer(TINY, TPU, prompt=64, generate=1).batches


@pytest.mark.parametrize(("text", "message"), [
    (None, "config.json"), ("", "the file is empty"), ("[1, 2]", "mapping"), ("{", "YAML syntax"),
    (json.dumps({**TINY, "num_hidden_layers": 10 ** 6}), "found 1000000 layers; accepted: at most 10000")])
def test_a_file_that_is_no_model_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None,
                                             message: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert main(["infer", str(tmp_path / "config.json"), TPU, "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_gpt3_on_the_tpu_is_at_most_what_accelforge_finds() -> None:
    """A layer of GPT-3 175B, its products alone: optima of AccelForge's own regression test (commit 1c1929c2), unfused,
    less its softmax, which has other charges there. Its mappings may be imperfect, and its reductions are charged less.
    """
    model = {"model_type": "gpt2", "n_embd": 12288, "n_layer": 1, "n_head": 96, "vocab_size": 1000, "n_positions": 4096}
    result = infer(model, TPU, prompt=2048, generate=1)
    decode = infer(model, TPU, prompt=2047, generate=2)
    for found, phase, joules, seconds in ((result, "prefill", 1.3358088 - 0.0975645, 0.0595010 - 0.0026231),
                                          (decode, "decode", 0.2099409 - 0.0000476, 0.0060693 - 0.0000013)):
        products = [share for share in found.operators if share.macs and share.phase == phase
                    and share.layers == "dense"]
        energy, time = (sum(share.energy_pj for share in products) * 1e-12,
                        sum(share.cycles for share in products) * found.cycle_s)
        assert (energy, time) == (pytest.approx(joules, rel=0.13), pytest.approx(seconds, rel=0.001))
        assert energy * time <= joules * seconds
