"""Descriptions of language models: their layers are the published ones, and keys that matter are known or refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fadiff_mapper import SpecError, load_network
from fadiff_mapper.api import read_model
from fadiff_mapper.inference.blocks import ends_network, layer_network
from fadiff_mapper.inference.infer import cached_words, weight_words
from fadiff_mapper.workload.operations import total

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 128000, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 8192,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.40.0.dev0", "use_cache": True,
    "vocab_size": 128256}
"""A config.json as it comes with a model."""


def counts(network: Any) -> tuple[int, Counter[str]]:
    """Multiply-accumulates and other operations; choices of experts are an input of the bundled blocks."""
    return network.macs, total(each.operations for each in network.vector_operators() if each.op != "sort")


@pytest.mark.parametrize("name", ["llama3_8b", "qwen3_8b", "gemma2_9b", "mixtral_8x7b", "deepseek_v3"])
@pytest.mark.parametrize(("phase", "tokens", "cached"), [("prefill", 2048, 0), ("decode", 1, 2047)])
def test_a_layer_is_the_bundled_block(name: str, phase: str, tokens: int, cached: int) -> None:
    model = read_model(f"bundled:models/{name}")
    ours = layer_network(model, model.layers[-1], 1, tokens, cached)
    block = load_network(f"bundled:networks/{name}_{phase}")
    assert counts(ours) == counts(block)
    assert {(entry.layer.key, entry.times) for entry in ours.distinct()} == {
        (entry.layer.key, entry.times) for entry in block.distinct()}


@pytest.mark.parametrize(("name", "billions"), [  # parameters that their makers publish
    ("llama3_8b", 8.03), ("qwen3_8b", 8.19), ("gemma2_9b", 9.24), ("mixtral_8x7b", 46.7), ("deepseek_v3", 671),
    ("gpt3_175b", 174.6), ("gpt3_6b7", 6.66)])
def test_weights_are_the_published_number(name: str, billions: float) -> None:
    assert weight_words(read_model(f"bundled:models/{name}")) / 1e9 == pytest.approx(billions, rel=0.005)


def test_a_config_json_is_read_with_all_its_keys(tmp_path: Path) -> None:
    folder = tmp_path / "Meta-Llama-3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA, indent=2))
    read, bundled = read_model(folder / "config.json"), read_model("bundled:models/llama3_8b")
    assert read.name == "Meta-Llama-3-8B"
    assert (read.layers, read.width, read.shared, read.size, read.vocabulary, read.context, read.tied) == (
        bundled.layers, bundled.width, bundled.shared, bundled.size, bundled.vocabulary, bundled.context, bundled.tied)
    assert read_model(LLAMA).layers == bundled.layers


@pytest.mark.parametrize(("change", "message"), [
    ({"model_type": "mamba"}, r"model_type: found a string \('mamba'\).*accepted: llama, mistral"),
    ({"num_key_value_heads": 5}, "5 heads of keys and values for 32 of queries; accepted: a divisor"),
    ({"hidden_size": 0}, "hidden_size: found 0; accepted: a whole number >= 1"),
    ({"hidden_size": 2 ** 40}, "less than 2\\^31"),
    ({"vocab_size": None}, 'the key "vocab_size" is missing'),
    ({"hidden_act": "maxout"}, "hidden_act: found a string"),
    ({"num_local_experts": 8}, 'num_local_experts: the key "num_local_experts" is not known of a llama, and may bear'),
    ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ({"layer_types": ["full_attention"]}, "layer_types: 1 entries for 32 layers"),
    ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 4}, "4 experts of 2; accepted: at most"),
])
def test_a_wrong_description_is_one_line_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_model({**LLAMA, **change})


def test_windows_bound_what_is_read_and_kept() -> None:
    gemma = read_model("bundled:models/gemma2_9b")
    assert [(layers.name, layers.count) for layers in gemma.layers] == [("windowed", 21), ("dense", 21)]
    lengths = [max(node.layer.problem.bounds["M"] for node in layer_network(gemma, layers, 1, 1, 7999).layers
                   if node.layer and node.name == "attention.scores") for layers in gemma.layers]
    assert lengths == [4096, 8000]
    assert cached_words(gemma, 2, 8000) == 21 * 2 * (4096 + 8000) * gemma.cached_words
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28}
    assert [(layers.name, layers.count) for layers in read_model(qwen).layers] == [("windowed", 4), ("dense", 28)]
    assert [layers.name for layers in read_model({**qwen, "use_sliding_window": False}).layers] == ["dense"]


def test_a_gpt_has_positions_and_no_gate() -> None:
    model = read_model("bundled:models/gpt3_6b7")
    assert (model.gated, model.rotary, model.tied, model.layers[0].inner) == (False, False, True, 4 * 4096)
    ops = [each.op for each in ends_network(model, 2, 16).vector_operators()]
    assert ops == ["gather", "add", "layernorm"]
