"""The bundled blocks of language models: work counted from published extents, links that tiles pass, equal sources."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from made_graphs import bundled_network

from fadiff_mapper import FadiffError, Workload, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.workload import coverage

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


@pytest.mark.parametrize("name", NAMES)
def test_a_block_has_the_multiply_accumulates_that_its_extents_make(name: str) -> None:
    model, _, phase = name.rpartition("_")
    tokens = PREFILL if phase == "prefill" else 1
    expected = deepseek_macs(tokens) if model == "deepseek_v3" else grouped_macs(tokens, **MODELS[model])
    assert bundled_network(name).macs == expected
    assert bundled_network(name).not_understood() == ()


@pytest.mark.parametrize("model", MODELS)
def test_keys_and_values_are_read_once_for_all_query_heads_that_share_them(model: str) -> None:
    for phase, tokens in (("prefill", PREFILL), ("decode", 1)):
        layers = bundled_network(f"{model}_{phase}").layers
        scores, sums = (node.layer for node in layers if node.layer and node.layer.repeat == 8
                        and "mlp" not in node.name)
        extents = MODELS[model]
        rows = extents["heads"] // extents["shared"] * tokens
        for layer in (scores, sums):
            assert layer.problem.bounds["N"] == rows
            words = layer.repeat * layer.problem.tensor_size(layer.dataspace("Weights"))
            assert words == extents["shared"] * ATTENDED * extents["size"]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_passes_that_no_computed_index_stops(name: str) -> None:
    found = Counter(link.obstacle.name if link.obstacle else "passes" for link in bundled_network(name).links())
    experts = name.startswith(("mixtral", "deepseek"))
    assert set(found) - {"passes"} <= {"picked"}
    assert found["picked"] == (2 if experts else 0)  # the tokens of an expert, for its gate and its projection


def products_of_experts(network: Workload) -> set[tuple[int, int, str]]:
    """(experts at work, rows of each, what is said of them) of all products of experts."""
    return {(node.layer.repeat, node.layer.problem.bounds["N"], node.what) for node in network.layers
            if node.layer and node.experts}


@pytest.mark.parametrize(("name", "rows", "busy", "experts"), [
    ("mixtral_8x7b_prefill", 4096, 8, 8), ("mixtral_8x7b_decode", 2, 2, 8), ("deepseek_v3_prefill", 16384, 256, 256),
    ("deepseek_v3_decode", 8, 8, 256)])
def test_the_balance_of_experts_is_stated_and_can_be_set(name: str, rows: int, busy: int, experts: int) -> None:
    network = bundled_network(name)
    stated = f"{rows} rows spread evenly over {busy} of {experts} experts"
    assert products_of_experts(network) == {(busy, rows // busy, stated)}
    assert any(stated in sentence for sentence in coverage(network).sentences())
    one = load_network(f"bundled:networks/{name}", busy_experts=1)
    assert products_of_experts(one) == {(1, rows, f"{rows} rows spread evenly over 1 of {experts} experts")}
    assert one.macs == network.macs
    assert [link.obstacle is None for link in one.links()] == [link.obstacle is None for link in network.links()]
    assert load_network(f"bundled:networks/{name}", busy_experts=10 ** 6) == network   # no more than there are


def test_weights_are_read_once_for_each_busy_expert() -> None:
    for busy in (2, 8):
        network = load_network("bundled:networks/mixtral_8x7b_prefill", busy_experts=busy)
        layers = [node.layer for node in network.layers if node.layer and node.experts]
        words = sum(layer.repeat * layer.problem.tensor_size(layer.dataspace("Weights")) for layer in layers)
        assert words == busy * 3 * 4096 * 14336


@pytest.mark.parametrize(("name", "busy", "message"), [
    ("mixtral_8x7b_prefill", 3, r"4096 rows do not divide evenly among 3 experts; accepted: 1, 2, 4, 8"),
    ("mixtral_8x7b_prefill", 0, r"busy_experts: found 0; accepted: a whole number >= 1"),
    ("llama3_8b_prefill", 2, r"no operator is a product of experts")])
def test_a_balance_that_cannot_be_is_refused(name: str, busy: int, message: str) -> None:
    with pytest.raises(FadiffError, match=message):
        load_network(f"bundled:networks/{name}", busy_experts=busy)


def test_the_command_sets_the_balance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mixtral.yaml"
    assert main(["import", "bundled:networks/mixtral_8x7b_decode", "--busy-experts", "1", "-o", str(file)]) == 0
    assert "2 rows spread evenly over 1 of 8 experts" in capsys.readouterr().out
    assert load_network(file) == load_network("bundled:networks/mixtral_8x7b_decode", busy_experts=1)


@pytest.mark.parametrize("name", ["llama3_8b_decode", "deepseek_v3_prefill"])
def test_a_bundled_block_is_what_its_module_makes(name: str) -> None:
    source = runpy.run_path(str(bundled_files.ROOT / "make_blocks.py"))
    assert source["block"](name) == bundled_network(name)
