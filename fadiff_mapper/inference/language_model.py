"""Language models from the `config.json` of Hugging Face's transformers, or as PyTorch modules; weights are not read.

Keys and their defaults follow the configuration classes of github.com/huggingface/transformers (src/transformers).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.spec.keys import NATURAL, POSITIVE, TEXT, TRUTH, kind, one, table
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.inputs.yaml.located import REQUIRED, Map, Reader, each, one_of, positive, with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Workload
from fadiff_mapper.workload.coverage import require_coverage
from fadiff_mapper.workload.readers.load_network import REFUSED, load_network


@dataclass(frozen=True)
class Latent:
    """Attention over latent vectors (DeepSeek): the extents of queries and of the cache of a token."""

    queries: int  # of the latent queries; 0 where queries are not compressed
    cached: int  # of the latent vector that replaces keys and values
    plain: int  # of a head without positions
    turned: int  # of a head with rotary positions, and of the key that all heads share
    value: int  # of a head's values


@dataclass(frozen=True)
class Layers:
    """The decoder layers of one kind."""

    name: str  # such as "dense", "experts" or "windowed"
    count: int
    inner: int  # extent within the feed-forward part, of one expert where there are several
    window: int | None = None  # tokens to which a token attends; None: all before it
    experts: int = 0  # number of experts; 0 for a dense feed-forward part
    used: int = 0  # experts that each token uses
    shared: int = 0  # extent of the experts that all tokens use


@dataclass(frozen=True)
class LanguageModel:
    """The extents of a decoder, and the parts of its layers."""

    name: str
    width: int  # channels between layers
    heads: int  # query heads
    shared: int  # heads of keys and values
    size: int  # channels of a head
    layers: tuple[Layers, ...]
    vocabulary: int
    context: int  # longest sequence in tokens
    norm: str = "rmsnorm"  # or "layernorm"
    activation: str = "silu"  # a pointwise operation of `workload.node.KINDS`
    gated: bool = True  # whether a product with a gate precedes the last product of a feed-forward part
    rotary: bool = True  # else positions are added to the embedding
    head_norms: bool = False  # whether queries and keys are normalised within heads
    sandwich: bool = False  # whether norms also follow attention and feed-forward parts
    capped: bool = False  # whether scores, and logits, pass through a tanh
    tied: bool = False  # whether the embedding is the head's matrix, too
    latent: Latent | None = None

    @property
    def cached_words(self) -> int:
        """Words of the cache of one layer for one token."""
        return self.latent.cached + self.latent.turned if self.latent else 2 * self.shared * self.size


@dataclass(frozen=True)
class TracedModel:
    """A PyTorch module of tokens without a configuration: its prompts are traced, and its cache is not known."""

    module: Any  # the torch.nn.Module
    layers = (Layers("network", 1, 0),)  # the whole module counts as one layer
    cached_words = 0  # words of its cache for a token: none is known

    @property
    def name(self) -> str:
        return type(self.module).__name__

    @property
    def weights(self) -> int:
        """Words of all parameters."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def prompt_network(self, batch: int, tokens: int) -> Workload:
        """The whole module on so many sequences of so many tokens.

        Raises FadiffError where `torch.export` refuses the module, or too little of it is understood.
        """
        device = next((parameter.device for parameter in self.module.parameters()), "cpu")
        torch = sys.modules["torch"]
        network = load_network(self.module, torch.zeros((batch, tokens), dtype=torch.int64, device=device))
        require_coverage(network, False, "map_network(..., allow_partial=True)")
        return network


FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "mixtral", "deepseek_v3", "gpt2")
"""Accepted values of `model_type`."""
ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu",
               "gelu_fast": "gelu", "relu": "relu"}
MATTERS = re.compile(r"num_|^n_|_size|_dim|_rank|layer|head|expert|window|config|quant|ratio|factor|moe|cache")
"""Words in keys that may change a cost: unknown keys with such a word are errors, other unknown keys are ignored."""
HARMLESS = ("transformers_version", "use_cache", "cache_implementation", "layer_norm_eps", "layer_norm_epsilon",
            "initializer_range", "router_aux_loss_coef", "output_router_logits", "aux_loss_alpha", "seq_aux", "ep_size",
            "moe_layer_freq", "n_group", "topk_group", "topk_method", "num_nextn_predict_layers",
            "routed_scaling_factor", "norm_topk_prob",
            "router_jitter_noise", "rope_theta", "rope_scaling", "pretraining_tp", "hidden_dropout",
            "attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_proj_to_labels", "scale_attn_weights", "n_ctx",
            "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "task_specific_params", "use_sliding_window",
            "max_window_layers", "num_experts_per_token", "query_pre_attn_scalar", "hidden_activation", "pruned_heads",
            "num_beams", "num_beam_groups", "num_return_sequences", "qk_head_dim")
"""Keys with such a word that change no cost, or are read together with another key."""
ACCEPTED = ("a config.json of transformers, bundled:models/NAME, or in Python a dict of the same keys or a PyTorch "
            "module")
BOUND, MOST_LAYERS = 2 ** 31, 10_000  # limit of an extent, and of the number of layers: plain safety limits


def _extent(value: Any, where: Where) -> int:
    found = positive(value, where)
    if found >= BOUND:
        raise where.error(f"found {found}", "less than 2^31")
    return found


EXTENT = kind(_extent, "whole number from 1 to 2^31 - 1", type=["number", "string"], minimum=1, exclusiveMaximum=BOUND)
MODEL = table(
    ("model_type", one(*FAMILIES), REQUIRED, "its family"),
    ("_name_or_path", TEXT, "", "its name; by default that of the file or its folder"),
    ("hidden_size", EXTENT, REQUIRED, "channels between layers"),
    ("num_attention_heads", EXTENT, REQUIRED, "heads of queries"),
    ("num_key_value_heads", EXTENT, None, "heads of keys and values; by default as many as of queries"),
    ("head_dim", EXTENT, None, "channels of a head; by default the channels between layers over the heads"),
    ("num_hidden_layers", EXTENT, REQUIRED, "layers"),
    ("intermediate_size", EXTENT, REQUIRED, "extent within the feed-forward part"),
    ("n_embd", EXTENT, REQUIRED, "of gpt2: channels between layers"),
    ("n_head", EXTENT, REQUIRED, "of gpt2: heads"),
    ("n_layer", EXTENT, REQUIRED, "of gpt2: layers"),
    ("n_inner", EXTENT, None, "of gpt2: extent within the feed-forward part; by default four times the channels"),
    ("activation_function hidden_activation hidden_act", one(*ACTIVATIONS), None, "by default silu, of gpt2 gelu"),
    ("vocab_size", EXTENT, REQUIRED, "words of the vocabulary"),
    ("n_positions max_position_embeddings", EXTENT, REQUIRED, "longest sequence in tokens"),
    ("tie_word_embeddings", TRUTH, None, "whether the head uses the embedding matrix; by default true for gpt2, gemma"),
    ("q_lora_rank", POSITIVE, 0, "of deepseek_v3: extent of the latent queries; by default queries are not compressed"),
    ("kv_lora_rank", EXTENT, REQUIRED, "of deepseek_v3: extent of the latent vector of keys and values"),
    ("qk_nope_head_dim", EXTENT, REQUIRED, "of deepseek_v3: channels of a head without positions"),
    ("qk_rope_head_dim", EXTENT, REQUIRED, "of deepseek_v3: channels of a head with positions"),
    ("v_head_dim", EXTENT, REQUIRED, "of deepseek_v3: channels of a head's values"),
    ("n_routed_experts", POSITIVE, REQUIRED, "of deepseek_v3: experts"),
    ("num_experts_per_tok", POSITIVE, REQUIRED, "experts that each token uses"),
    ("moe_intermediate_size", POSITIVE, REQUIRED, "of deepseek_v3: extent within an expert"),
    ("n_shared_experts", NATURAL, 1, "of deepseek_v3: experts that all tokens use"),
    ("first_k_dense_replace", NATURAL, 0, "of deepseek_v3: number of first layers, which have no experts"),
    ("num_local_experts", POSITIVE, REQUIRED, "of mixtral: experts"),
    ("sliding_window", POSITIVE, 0, "tokens to which a token attends; by default all before it"),
    ("use_sliding_window", TRUTH, None, "whether that window counts; by default true, false for qwen"),
    ("max_window_layers", NATURAL, 0, "of qwen: number of first layers, which have no window"),
    ("layer_types", kind(each(one_of("full_attention", "sliding_attention")), "list", type="array"), None,
     "which layers have the window"))
"""The keys of a `config.json`; the family decides which of them it has."""


def described(source: Any) -> LanguageModel | TracedModel:
    """The model of a source: a read model stays, a module without a configuration is traced, else it is read."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module) and not _configuration(source):
        return TracedModel(source)
    return source if isinstance(source, LanguageModel) else read_model(source)


def _configuration(source: Any) -> dict[str, Any]:
    """The keys of a transformers configuration, or of a module with a configuration; empty for any other source."""
    config = getattr(source, "config", source)
    return dict(config.to_dict()) if hasattr(config, "to_dict") else {}


def read_model(source: Any) -> LanguageModel:
    """Reads a model from a `config.json`, a bundled description (`bundled:models/NAME`), a dict of the same keys, or a
    configuration of transformers or a module that has one.

    Raises SpecError for an unknown family, a missing key, an extent out of range, or an unknown key that may bear on
    the cost (`MATTERS`); FadiffError where there is no such file, and for a source of another kind.
    """
    source = _configuration(source) or source
    if isinstance(source, Mapping):
        node = with_places(dict(source), Where("model"))
        assert isinstance(node, Map)
        title = ""
    elif not isinstance(source, str | os.PathLike):
        raise FadiffError(f"a model: found {type(source).__name__}; accepted: {ACCEPTED}")
    else:
        path = bundled_files.one_path(source)
        if path.suffix.lower() in REFUSED:
            raise FadiffError(f"{path}: cannot be read without running code from it; accepted: {ACCEPTED}")
        node, title = load_file(path), path.parent.name if path.name == "config.json" else path.stem
    reader = Reader(node, MODEL)
    family = reader.read("model_type")
    gpt = family == "gpt2"
    width, heads, depth = map(reader.read, ("n_embd", "n_head", "n_layer") if gpt else (
        "hidden_size", "num_attention_heads", "num_hidden_layers"))
    if depth > MOST_LAYERS:
        raise node.where.error(f"found {depth} layers", f"at most {MOST_LAYERS}")
    shared = heads if gpt else reader.read("num_key_value_heads", heads)
    if heads % shared:
        raise reader.at("num_key_value_heads").error(f"{shared} heads of keys and values for {heads} of queries",
                                                     "a divisor of num_attention_heads")
    size = reader.read("head_dim", width // heads)
    inner = reader.read("n_inner", 4 * width) if gpt else reader.read("intermediate_size")
    activation = ACTIVATIONS[reader.read("activation_function", "gelu" if gpt else "silu")]
    latent = None
    if family == "deepseek_v3":
        latent = Latent(*map(reader.read, ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
                                           "v_head_dim")))
    layers = _layers(reader, family, depth, inner)
    model = LanguageModel(
        reader.read("_name_or_path", title) or title or family, width, heads, shared, size, layers,
        reader.read("vocab_size"), reader.read("n_positions"), "layernorm" if gpt else "rmsnorm",
        activation, not gpt, not gpt, family == "qwen3", family == "gemma2", family == "gemma2",
        reader.read("tie_word_embeddings", gpt or family.startswith("gemma")), latent)
    for key in node:
        if key not in (*reader.asked, *HARMLESS) and MATTERS.search(str(key)) and node[key] not in (None, False, 0):
            raise node.at(key).error(f'the key "{key}" is not known of a {family}, and may bear on the cost',
                                     f"{listed(reader.asked)}; or the key left out, where it does not")
    return model


def _layers(reader: Reader, family: str, depth: int, inner: int) -> tuple[Layers, ...]:
    """The layers by kind: dense or with experts, with or without a window of attention."""
    if family == "deepseek_v3":
        experts, used, extent, always, first = map(reader.read, (
            "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts",
            "first_k_dense_replace"))
        dense = min(first, depth)
        found = (Layers("dense", dense, inner),
                 Layers("experts", depth - dense, extent, None, experts, _used(reader, used, experts), extent * always))
        return tuple(layers for layers in found if layers.count)
    window: int | None = reader.read("sliding_window") or None
    if not reader.read("use_sliding_window", not family.startswith("qwen")):
        window = None
    before = reader.read("max_window_layers") if family.startswith("qwen") else 0
    if family == "mixtral":
        experts, used = reader.read("num_local_experts"), reader.read("num_experts_per_tok")
        return (Layers("experts", depth, inner, window, experts, _used(reader, used, experts)),)
    kinds = reader.read("layer_types")
    if kinds is not None and len(kinds) != depth:
        raise reader.at("layer_types").error(f"{len(kinds)} entries for {depth} layers", "one for each layer")
    windowed = (0 if window is None else kinds.count("sliding_attention") if kinds else
                (depth + 1) // 2 if family == "gemma2" else max(depth - before, 0))
    found = (Layers("windowed", windowed, inner, window), Layers("dense", depth - windowed, inner))
    return tuple(layers for layers in found if layers.count)


def _used(reader: Reader, used: int, experts: int) -> int:
    if used > experts:
        raise reader.at("num_experts_per_tok").error(f"{used} experts of {experts}", f"at most {experts}")
    return used
