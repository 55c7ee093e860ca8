"""The bundled blocks of language models: work counted from published extents, links that tiles pass, equal sources."""

from __future__ import annotations

import runpy
from collections import Counter
from typing import Any

import pytest

from fadiff_mapper import Workload, load_network
from fadiff_mapper.base import bundled_files

PREFILL, ATTENDED = 2048, 2048


def grouped_macs(tokens: int, width: int, heads: int, shared: int, size: int, inner: int, experts: int = 0,
                 used: int = 1) -> int:
    """Projections, scores and sums over all heads, and the feed-forward parts that the tokens use."""
    projections = tokens * width * size * (2 * heads + 2 * shared)
    attention = 2 * tokens * ATTENDED * heads * size
    return projections + attention + tokens * (3 * used * width * inner + experts * width)


def deepseek_macs(tokens: int) -> int:
    """Latent attention: expanded keys and values at prefill, absorbed projections at decode."""
    width, heads, plain, turned, value, q_latent, latent = 7168, 128, 128, 64, 128, 1536, 512
    shared = tokens * (width * q_latent + q_latent * heads * (plain + turned) + width * (latent + turned)
                       + heads * value * width)
    if tokens > 1:
        attention = tokens * (latent * heads * (plain + value) + ATTENDED * heads * (plain + turned + value))
    else:
        attention = heads * (plain * latent + ATTENDED * (latent + turned) + ATTENDED * latent + latent * value)
    return shared + attention + tokens * width * (256 + 3 * 2048 * (8 + 1))


MODELS: dict[str, Any] = {
    "llama3_8b": {"width": 4096, "heads": 32, "shared": 8, "size": 128, "inner": 14336},
    "qwen3_8b": {"width": 4096, "heads": 32, "shared": 8, "size": 128, "inner": 12288},
    "gemma2_9b": {"width": 3584, "heads": 16, "shared": 8, "size": 256, "inner": 14336},
    "mixtral_8x7b": {"width": 4096, "heads": 32, "shared": 8, "size": 128, "inner": 14336, "experts": 8, "used": 2},
}
NAMES = [f"{model}_{phase}" for model in (*MODELS, "deepseek_v3") for phase in ("prefill", "decode")]


def block(name: str) -> Workload:
    return load_network(f"bundled:networks/{name}")


@pytest.mark.parametrize("name", NAMES)
def test_a_block_has_the_multiply_accumulates_that_its_extents_make(name: str) -> None:
    model, _, phase = name.rpartition("_")
    tokens = PREFILL if phase == "prefill" else 1
    expected = deepseek_macs(tokens) if model == "deepseek_v3" else grouped_macs(tokens, **MODELS[model])
    assert block(name).macs == expected
    assert block(name).not_understood() == ()


@pytest.mark.parametrize("model", MODELS)
def test_keys_and_values_are_read_once_for_all_query_heads_that_share_them(model: str) -> None:
    for phase, tokens in (("prefill", PREFILL), ("decode", 1)):
        scores, sums = (node.layer for node in block(f"{model}_{phase}").layers if node.layer and node.layer.repeat == 8
                        and "mlp" not in node.name)
        extents = MODELS[model]
        rows = extents["heads"] // extents["shared"] * tokens
        for layer in (scores, sums):
            assert layer.problem.bounds["N"] == rows
            words = layer.repeat * layer.problem.tensor_size(layer.dataspace("Weights"))
            assert words == extents["shared"] * ATTENDED * extents["size"]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_passes_that_no_computed_index_stops(name: str) -> None:
    found = Counter(link.obstacle.name if link.obstacle else "passes" for link in block(name).links())
    experts = name.startswith(("mixtral", "deepseek"))
    assert set(found) - {"passes"} <= {"picked"}
    assert found["picked"] == (2 if experts else 0)  # the tokens of an expert, for its gate and its projection


@pytest.mark.parametrize("name", ["llama3_8b_decode", "deepseek_v3_prefill"])
def test_a_bundled_block_is_what_its_module_makes(name: str) -> None:
    source = runpy.run_path(str(bundled_files.root() / "make_blocks.py"))
    assert source["block"](name) == block(name)
