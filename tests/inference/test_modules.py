"""PyTorch modules as models: by their configuration where they have one, else traced for the prompt."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fadiff_mapper import FadiffError, infer
from fadiff_mapper.api import read_model

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

TPU = "bundled:inference/tpu_v4i_like"
WIDTH, HEADS, SHARED, SIZE, INNER, WORDS, DEPTH = 256, 4, 2, 64, 512, 1000, 3
CONFIG = {"model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS,
          "num_key_value_heads": SHARED, "intermediate_size": INNER, "vocab_size": WORDS,
          "max_position_embeddings": 1024}


class Layer(nn.Module):
    """A decoder layer of Llama: norms, rotary embedding, grouped queries, a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, heads * SIZE, bias=False)
                                            for heads in (HEADS, SHARED, SHARED, HEADS))
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in (
            (WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH)))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        def by_heads(made: torch.Tensor) -> torch.Tensor:
            return made.view(*made.shape[:2], -1, SIZE).transpose(1, 2)

        def turned(made: torch.Tensor) -> torch.Tensor:
            low, high = made.chunk(2, -1)
            return made * cos + torch.cat((-high, low), -1) * sin
        y = self.norm(x)
        q, k, v = turned(by_heads(self.q(y))), turned(by_heads(self.k(y))), by_heads(self.v(y))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(out.transpose(1, 2).reshape(x.shape))
        y = self.after(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A small Llama, whose logits are those of the last token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(WORDS, WIDTH), nn.RMSNorm(WIDTH)
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(DEPTH)), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        places = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * torch.ones(
            SIZE, device=tokens.device)
        for layer in self.layers:
            x = layer(x, places.cos(), places.sin())
        return self.head(self.norm(x[:, -1]))


def llama() -> nn.Module:
    with torch.device("meta"):
        return Llama().eval()


class Configured(nn.Module):
    """A module with the configuration of transformers beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.config = Configuration()


class Configuration:
    def to_dict(self) -> dict[str, Any]:
        return {**CONFIG, "num_beams": 1, "pruned_heads": {}, "num_return_sequences": 1, "chunk_size_feed_forward": 0}


def test_a_module_of_transformers_counts_as_its_configuration() -> None:
    known = infer(CONFIG, TPU, prompt=128, generate=4)
    for model in (Configured(), Configuration()):
        assert read_model(model) == known.model
        found = infer(model, TPU, prompt=128, generate=4)
        assert (found.model, found.batches) == (known.model, known.batches)


def test_every_configuration_of_transformers_is_read() -> None:
    transformers = pytest.importorskip("transformers")
    for family in ("Llama", "Mistral", "Qwen2", "Qwen3", "Gemma", "Gemma2", "Mixtral", "DeepseekV3", "GPT2"):
        config = getattr(transformers, f"{family}Config")()
        model = read_model(config)
        assert model.vocabulary == config.vocab_size
        assert sum(layers.count for layers in model.layers) == config.num_hidden_layers


def test_a_module_without_one_is_traced_for_the_prompt(tmp_path: Path) -> None:
    """Its products are those of the described model, as are its other operations; the files have them."""
    traced = infer(llama(), TPU, batch=(1, 2), prompt=128, generate=1, output=tmp_path)
    known = infer(CONFIG, TPU, batch=(1, 2), prompt=128, generate=1)

    def products(result: Any) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for share in result.operators:
            if share.macs:
                found[share.batch, share.macs // share.runs, share.cycles / share.runs] += share.runs
        return found
    assert products(traced) == products(known)
    ours, theirs = (sum(share.operations for share in result.operators) for result in (traced, known))
    assert ours == theirs
    norms = DEPTH * 2 * WIDTH + WIDTH  # scales, which a description does not count
    assert [each.weight_words - norms for each in traced.batches] == [each.weight_words for each in known.batches]
    assert (traced.model.name, traced.uncounted()) == ("Llama", {})
    assert {each.cache_words for each in traced.batches} == {0}
    assert "Llama on TPU" in (tmp_path / "inference.html").read_text()


def test_what_a_traced_module_cannot_do_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match=r"generate: found 512 for Llama, a module without a configuration, whose "
                                          r"cache .*; accepted: 1 \(the prompt alone\)"):
        infer(llama(), TPU, prompt=128)
    with pytest.raises(FadiffError, match="no profile of LLMServingSim"):
        infer(llama(), TPU, prompt=128, generate=1, serving_profile=True, output=tmp_path)
    with pytest.raises(FadiffError, match=r"Linear: torch\.export cannot trace it"):
        infer(nn.Linear(4, 4), TPU, prompt=128, generate=1)
    with pytest.raises(FadiffError, match=r"a model: found int; accepted: a config\.json of transformers, bundled:"):
        infer(3, TPU)
    with pytest.raises(FadiffError, match=r"model\.pt: cannot be read without running code from it; accepted: "):
        infer(tmp_path / "model.pt", TPU)
    assert not list(tmp_path.iterdir())
