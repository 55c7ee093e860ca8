"""Time tables of a model's layers on one device, in the form of LLMServingSim's profiles.

LLMServingSim (github.com/casys-kaist/LLMServingSim, docs/profiler/output-bundle) interpolates in tables of
microseconds: layers by tokens, the head by sequences, attention by the chunk of a prompt and the sequences that decode
beside it, experts by tokens. Here the chunk and the decoding sequences run in turn, so their times add up. The sampler
takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.text_formats import csv_text
from fadiff_mapper.inference.blocks import ends_network, layer_network
from fadiff_mapper.inference.infer import ATTENTION, InferenceQuestion, Step, mapped_steps
from fadiff_mapper.inference.language_model import LanguageModel, TracedModel
from fadiff_mapper.inputs.yaml.dump import dump

FEWEST = 16  # tokens of the smallest chunk, and of the smallest cache above 0: as in LLMServingSim's own profiles
NORMS = ("attention.norm", "attention.sum", "mlp.norm", "mlp.sum")
"""The two norms of a layer, each with the sum before it; LLMServingSim has one entry for both, which runs twice."""
DENSE = {"qkv_proj": ("attention.q", "attention.k", "attention.v"), "qk_norm": ("attention.q_norm", "attention.k_norm"),
         "rotary_emb": ("attention.q_rotary", "attention.k_rotary"), "o_proj": ("attention.out",)}
FEED_FORWARD = {"gate_up_proj": ("mlp.up", "mlp.gate"), "act_fn": ("mlp.gated",), "down_proj": ("mlp.down",)}
"""LLMServingSim's names of layers -> operators of `blocks.layer_network`, or `NAME.PART` for parts of an operator."""


FILES = {"": ("meta.yaml",), "tp1": ("dense.csv", "per_sequence.csv", "attention.csv", "moe.csv")}
"""Folder -> files of a profile; the last only where there are experts."""


def describable(model: LanguageModel | TracedModel) -> LanguageModel:
    """Returns the model. Raises FadiffError if LLMServingSim cannot describe its layers: several kinds, latent
    attention, norms behind parts, no gate, positions that are added, a traced module."""
    if isinstance(model, TracedModel) or model.latent or model.sandwich or not (
            model.rotary and model.gated and len(model.layers) == 1):
        raise FadiffError(f"{model.name}: no profile of LLMServingSim can describe its layers; accepted: layers that "
                          "are all alike, with rotary positions and a gate, without latent attention or norms behind "
                          "parts")
    return model


def doubled(first: int, last: int) -> list[int]:
    """Powers of two times `first` below `last`, and `last`."""
    numbers = [first]
    while 2 * numbers[-1] < last:
        numbers.append(2 * numbers[-1])
    return numbers if last <= first else [*numbers, last]


def serving_profile(question: InferenceQuestion) -> dict[str, dict[str, str]]:
    """Folder -> name -> text of the tables, up to the largest batch, the prompt, and the generated tokens.

    Raises the errors of `api.infer` and of `describable`.
    """
    model, sequences, prompt = describable(question.model), max(question.batch), question.prompt
    generate = question.generate
    layers, = model.layers
    tokens, batches = doubled(1, prompt), doubled(1, sequences)
    chunks, caches = doubled(FEWEST, prompt), [0, *doubled(FEWEST, prompt + generate - 1)]
    runs = [*((1, count, 0) for count in tokens), *((1, *each) for each in product(chunks, caches)),
            *((batch, 1, cached) for batch, cached in product(batches, caches[1:]))]
    ends = [*((1, count) for count in tokens), *((batch, 1) for batch in (*batches, *tokens))]
    networks = {("layer", *run): layer_network(model, layers, *run) for run in runs} | {
        ("ends", *end, 0): ends_network(model, *end) for end in ends}
    steps = [Step(kind, batch, cached, 1, kind, network, 1) for (kind, batch, _, cached), network in networks.items()]
    found = mapped_steps(question, steps, {step.batch: prompt + generate - 1 for step in steps})
    shares = {key: tuple(found.shares(step)) for key, step in zip(networks, found.steps, strict=True)}

    def time(kind: str, batch: int, count: int, cached: int, names: Sequence[str],
             without: Sequence[str] = ()) -> float:
        """Microseconds of operators by name, or by the beginning of the name before a dot."""
        return sum(share.cycles for share in shares[kind, batch, count, cached] if share.operator not in without
                   for name in names if share.operator == name or share.operator.startswith(f"{name}.")
                   ) * found.cycle_s * 1e6

    def dense() -> Iterator[tuple[str, int, float]]:
        for count in tokens:
            yield "embedding", count, time("ends", 1, count, 0, ("embedding",))
            yield "layernorm", count, time("layer", 1, count, 0, NORMS) / 2
            yield "final_layernorm", count, time("ends", count, 1, 0, ("head.norm",))
            for name, parts in (DENSE if layers.experts else DENSE | FEED_FORWARD).items():
                if name != "qk_norm" or model.head_norms:
                    yield name, count, time("layer", 1, count, 0, (
                        *parts, f"mlp.{model.activation}") if name == "act_fn" else parts)

    def attention() -> Iterator[tuple[int, int, int, int, float]]:
        prefills = [(0, 0, 0.0), *((chunk, cached, time("layer", 1, chunk, cached, ATTENTION))
                                   for chunk, cached in product(chunks, caches))]
        decodes = [(0, 0, 0.0), *((batch, cached, time("layer", batch, 1, cached, ATTENTION))
                                  for batch, cached in product(batches, caches[1:]))]
        for (chunk, before, first), (batch, cached, second) in product(prefills, decodes):
            if chunk or batch:
                yield chunk, before, batch, cached, first + second
    tables = {
        "dense.csv": csv_text(("layer", "tokens", "time_us"), sorted(dense())),
        "per_sequence.csv": csv_text(("layer", "sequences", "time_us"), [
            *(("lm_head", batch, time("ends", batch, 1, 0, ("head",), ("head.norm",))) for batch in batches),
            *(("sampler", batch, 0.0) for batch in batches)]),
        "attention.csv": csv_text(("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"), attention())}
    if layers.experts:
        tables["moe.csv"] = csv_text(("tokens", "activated_experts", "time_us"), (
            (count, min(count * layers.used, layers.experts), time("layer", 1, count, 0, ("mlp", "shared"), NORMS))
            for count in tokens))
    meta = {"hardware": found.spec.arch.name, "model": model.name, "tp_degrees": [1], "skew_fit": {"enabled": False},
            "engine_effective": {"max_num_batched_tokens": prompt, "max_num_seqs": sequences}}
    return {"": {"meta.yaml": dump(meta)}, "tp1": tables}
