"""PyTorch modules as networks, through torch.export: the same layers as the bundled lists."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_networks
from made_graphs import distinct_layers
from torch import nn
from torch.nn import functional
from torch_networks import Function

from fadiff_mapper import FadiffError, SpecError, Workload, load_network
from fadiff_mapper.workload import Link
from fadiff_mapper.workload.readers.network_text import network_text


def traced(make: Any, *shapes: tuple[int, ...], **options: Any) -> Workload:
    """The network of a module that `make` builds, on inputs of these shapes."""
    with torch.device("meta"):
        return load_network(make().eval(), tuple(torch.empty(shape) for shape in shapes), **options)


@pytest.fixture(scope="module", params=list(torch_networks.INPUTS))
def network(request: pytest.FixtureRequest) -> Workload:
    return traced(getattr(torch_networks, request.param), torch_networks.INPUTS[request.param], name=request.param)


def test_a_module_has_the_distinct_layers_counts_and_macs_of_the_bundled_network(network: Workload) -> None:
    listed = load_network(f"bundled:networks/{network.name}")
    assert distinct_layers(network) == distinct_layers(listed)
    assert (network.macs, len(network.layers)) == (listed.macs, len(listed.layers))
    assert network.not_understood() == ()


def test_a_module_as_a_network_file_loads_to_the_same_graph(network: Workload, tmp_path: Any) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(network_text(network))
    assert load_network(path) == network


def test_attention_is_two_products_with_whole_rows_between_them_however_it_is_written() -> None:
    def seen(link: Link) -> Any:
        return link.operand, link.axes, link.whole, link.fusable
    fused, written_out = (traced(lambda f=fused: torch_networks.Decoder(64, 4, f), (1, 32, 64))
                          for fused in (True, False))
    assert distinct_layers(fused) == distinct_layers(written_out)
    assert list(map(seen, fused.links())) == list(map(seen, written_out.links()))
    assert [node.op for node in fused.nodes].count("softmax") == 1


def test_names_are_those_of_the_modules() -> None:
    found = traced(lambda: torch_networks.Decoder(64, 4, True), (1, 32, 64))
    assert [node.name for node in found.layers if "scaled" not in node.name] == ["q", "k", "v", "out", "up", "down"]


def repeated_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """As the models of transformers write it."""
    k, v = (t[:, :, None].expand(-1, -1, q.shape[1] // t.shape[1], -1, -1).reshape(q.shape[:2] + t.shape[2:])
            for t in (k, v))
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v


def interleaved(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """As models are often written by hand."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.parametrize("attend", [grouped, repeated_by_hand, interleaved])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_query_heads_that_share_keys_and_values_are_rows_of_one_product(attend: Any, heads: int) -> None:
    found = traced(lambda: Function(attend), (1, 8, 16, 4), (1, heads, 32, 4), (1, heads, 32, 4))
    own = traced(lambda: Function(grouped), (1, 8, 16, 4), (1, 8, 32, 4), (1, 8, 32, 4))
    assert found.macs == own.macs
    assert [(node.layer.repeat, node.layer.problem.bounds["N"]) for node in found.layers if node.layer] == [
        (heads, 8 // heads * 16)] * 2
    assert "expand" not in [node.op for node in found.nodes]


def test_a_computed_mask_joins_the_scores_before_the_softmax() -> None:
    def attend(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, q, q, mask)
    (link,) = [link for link in traced(lambda: Function(attend), (1, 2, 16, 4), (16, 16)).links()
               if link.operand == "Inputs"]
    assert link.fusable and len(link.joins) == 1 and link.whole == ("M",)


def test_what_is_not_understood_is_listed_and_keeps_layers_apart() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.linalg.inv(self.first(x)))
    found = traced(Odd, (8, 8))
    (link,) = found.links()
    assert link.obstacle is not None and link.obstacle.name == "not_understood"
    assert ("linalg_inv", None) in [(item.what, item.share) for item in found.not_understood()]


def test_an_update_in_place_is_seen_by_those_who_read_the_tensor_later() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x @ y
        z.relu_()
        return z @ y
    (link,) = traced(lambda: Function(function), (8, 8), (8, 8)).links()
    assert len(link.through) == 1


def test_dynamic_dimensions_are_refused() -> None:
    module = nn.Linear(8, 8)
    program = torch.export.export(module, (torch.zeros(4, 8),), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    with pytest.raises(SpecError, match="has dynamic dimensions"):
        load_network(program)


def test_a_module_needs_example_inputs_and_must_be_traceable() -> None:
    with pytest.raises(FadiffError, match="no example inputs"):
        load_network(nn.Linear(8, 8))
    with pytest.raises(FadiffError, match=r"torch\.export cannot trace it") as caught:
        traced(lambda: Function(lambda x: x @ x), (4, 8))
    assert len(str(caught.value).splitlines()) == 1


def test_a_module_whose_values_decide_its_steps_is_refused_in_one_line_without_its_program(capfd: Any) -> None:
    def detector(x: torch.Tensor) -> torch.Tensor:
        scores = x @ x
        return scores if (scores > 0).nonzero().shape[0] > 3 else -scores

    with pytest.raises(FadiffError, match="accepted: modules whose steps and shapes no value decides") as caught:
        load_network(Function(detector), torch.empty(4, 4))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == "", "torch prints the program so far"


def test_a_network_without_a_layer_is_refused() -> None:
    with pytest.raises(SpecError, match="the network has no layer"):
        traced(nn.ReLU, (4, 8))


def llama_norm(x: torch.Tensor) -> torch.Tensor:
    return 1.5 * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def t5_norm(x: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize(("norm", "op"), [(llama_norm, "rmsnorm"), (t5_norm, "rmsnorm"), (layer_norm, "layernorm")])
def test_a_norm_that_is_written_out_is_one_operator_that_needs_rows(norm: Any, op: str) -> None:
    weight = torch.empty(64, 64, device="meta")
    found = traced(lambda: Function(lambda x: norm(x @ weight) @ weight), (1, 32, 64))
    assert [node.op for node in found.nodes if not node.layer and node.op not in ("input", "mul")] == [op]
    (passed,) = found.links()
    assert (passed.whole, passed.fusable, passed.in_tiles) == (("M",), True, True)


def test_a_mean_that_something_else_reads_stays_a_node() -> None:
    def both(x: torch.Tensor) -> Any:
        mean = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + 1e-6), mean
    found = traced(lambda: Function(lambda x: both(x @ torch.empty(64, 64, device="meta"))), (1, 32, 64))
    assert "rmsnorm" not in [node.op for node in found.nodes]


def test_a_softmax_guarded_against_rows_of_nothing_passes_tiles_as_a_softmax_does() -> None:
    def guarded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rows = torch.softmax(q @ k.transpose(-2, -1), -1)
        return torch.where(torch.isnan(rows), 0.0, rows) @ v
    (scores,) = traced(lambda: Function(guarded), *[(1, 4, 16, 8)] * 3).links()
    assert (scores.whole, scores.fusable, scores.also_read_by) == (("M",), True, ())


def test_a_packed_projection_hands_on_rows_of_its_parts() -> None:
    qkv, out = torch.empty(64, 192, device="meta"), torch.empty(64, 64, device="meta")

    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = ((x @ qkv).reshape(1, 32, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0))
        rows = functional.scaled_dot_product_attention(q, k, v)
        return rows.transpose(1, 2).reshape(1, 32, 64) @ out
    found = traced(lambda: Function(attend), (1, 32, 64))
    assert [(item.operand, item.fusable, item.in_tiles) for item in found.links()] == [
        ("Inputs", True, True), ("Weights", True, True), ("Inputs", True, True), ("Weights", True, True),
        ("Inputs", True, True)]


class Cached(nn.Module):
    """A decode step whose keys are written in place into a cache of a fixed length."""

    def __init__(self) -> None:
        super().__init__()
        self.k = nn.Linear(64, 32)
        self.register_buffer("keys", torch.zeros(1, 2, 128, 16))

    def forward(self, x: torch.Tensor, q: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(2, place, self.k(x).view(1, 1, 2, 16).transpose(1, 2))
        keys = self.keys[:, :, None].expand(-1, -1, 4, -1, -1).reshape(1, 8, 128, 16)
        return q @ keys.transpose(-2, -1)


class Masked(nn.Module):
    """A mask of zeros of the image's size, written region by region, and a sum through nn.Identity in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.around = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1), nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = x.new_zeros(8, 8)
        mask[:4, 4:] = 1
        y = torch.ops.aten.alias(self.first(x))
        y += self.around(x)
        return self.second(y.masked_fill(mask == 0, 0.0))


def test_masks_of_a_computed_shape_and_other_names_of_a_tensor_are_followed_without_another_trace(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def traced(*arguments: Any) -> Any:
        raise NotImplementedError("traced again")
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", traced)
    found = load_network(Masked().eval(), (torch.empty(1, 4, 8, 8),))
    (passed,) = found.links()
    assert (passed.obstacle, passed.joins, passed.in_tiles) == (None, ("x",), True)
    assert all(node.op != "scatter" for node in found.nodes)


@pytest.mark.parametrize("works", [True, False])
def test_a_cache_that_is_written_in_place_is_read_behind_the_write(
        works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not works:
        def fails(*arguments: Any) -> Any:
            raise AssertionError("PyTorch cannot make the update explicit")
        monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", fails)
    inputs = (torch.empty(1, 64), torch.empty(1, 8, 1, 16), torch.zeros(1).long())
    program = torch.export.export(Cached().eval(), inputs)
    found = load_network(program, name="cached")
    (written,) = found.links()
    assert (written.producer, written.obstacle and written.obstacle.name) == ("k", "placed")
    scores = found.layers[-1].layer
    assert scores is not None and (scores.repeat, scores.problem.bounds["N"], scores.problem.bounds["M"]) == (2, 4, 128)


class Regions(nn.Module):
    """A product in a region within a region, whose results are read together."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        with torch.no_grad():
            scale = y.exp()
            with torch.autocast("cpu", torch.bfloat16):
                y = self.second(y)
        return y * scale


def test_regions_are_read_where_they_stand_even_if_pytorch_fails_to_put_them_there(
        monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(Regions(), (torch.empty(4, 8),))
    expected = load_network(program, name="regions")
    def fails(*arguments: Any) -> Any:
        raise AssertionError("PyTorch cannot make them explicit")
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", fails)
    found = load_network(program, name="regions")
    assert [(node.op, node.shape) for node in found.nodes] == [(node.op, node.shape) for node in expected.nodes]
    assert found.macs == expected.macs == 2 * 4 * 64 and not found.not_understood()
    assert [link.fusable for link in found.links()] == [link.fusable for link in expected.links()] == [True]


def test_a_pool_that_rounds_up_may_be_larger_than_its_input() -> None:
    network = traced(lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.AvgPool2d(64, ceil_mode=True),
                                           nn.Flatten(), nn.Linear(8, 4)), (1, 3, 7, 7))
    assert network.nodes[2].shape == (1, 8, 1, 1)
    assert network.links()[0].whole == ("P", "Q")


# Rearranged points

def test_complex_rotary_embeddings_pass_tiles_by_whole_pairs() -> None:
    """Runs over 4 heads of 16 channels, and rows: as without the rotation, no tile cuts a pair."""
    turns = torch.empty(16, 1, 8, dtype=torch.cfloat, device="meta")

    def rotated(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        heads = (x @ torch.empty(64, 64, device="meta")).view(1, 16, 4, 16)
        pairs = torch.view_as_complex(heads.float().reshape(1, 16, 4, 8, 2))
        return torch.view_as_real(pairs * turns).flatten(3).transpose(1, 2) @ keys
    (link,) = traced(lambda: Function(rotated), (1, 16, 64), (1, 4, 16, 16)).links()
    assert (link.fusable, link.in_tiles, link.whole, link.joins) == (True, True, (), ())
    assert {(axis.dimension, axis.producer): axis.needed(1) for axis in link.axes} == {("*", "M"): 16, ("N", "N"): 1}


def test_pairs_stay_whole_where_channels_are_summed() -> None:
    turns = torch.empty(8, dtype=torch.cfloat, device="meta")

    def rotated(x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex((x @ torch.empty(64, 16, device="meta")).view(4, 8, 2))
        return torch.view_as_real(pairs * turns).flatten(1) @ torch.empty(16, 4, device="meta")
    (link,) = traced(lambda: Function(rotated), (4, 64)).links()
    assert {(axis.dimension, axis.producer): axis.needed(1) for axis in link.axes} == {("N", "N"): 1, ("C", "M"): 2}


@pytest.mark.parametrize(("size", "stride", "pad", "passing"), [
    (2, 2, 0, {("N", "P"): 2, ("C", "M"): 1}), (3, 1, 1, {("C", "M"): 1}), (3, 3, 0, {("C", "M"): 1})])
def test_unfolded_images_pass_tiles_of_channels_and_strips_of_windows_side_by_side(
        size: int, stride: int, pad: int, passing: dict[tuple[str, str], int]) -> None:
    """4 channels of 8 x 8: a tile of windows is rows of the image where windows stand side by side and cover it; a
    channel of the product is a point of a channel of the image in any case."""
    def patches(x: torch.Tensor) -> torch.Tensor:
        image = functional.conv2d(x, torch.empty(4, 4, 1, 1, device="meta"))
        return torch.empty(8, 4 * size * size, device="meta") @ functional.unfold(image, size, stride=stride,
                                                                                   padding=pad)
    (link,) = traced(lambda: Function(patches), (1, 4, 8, 8)).links()
    assert (link.fusable, link.in_tiles) == (True, True)
    assert {(axis.dimension, axis.producer): axis.needed(1) for axis in link.axes} == passing


def test_windows_along_single_axes_are_those_of_an_unfolded_image() -> None:
    image, weight = torch.empty(4, 4, 1, 1, device="meta"), torch.empty(16, 8, device="meta")

    def one(x: torch.Tensor) -> torch.Tensor:
        return functional.unfold(functional.conv2d(x, image), 2, stride=2).transpose(1, 2) @ weight

    def other(x: torch.Tensor) -> torch.Tensor:
        windows = functional.conv2d(x, image).unfold(2, 2, 2).unfold(3, 2, 2)
        return windows.permute(0, 2, 3, 1, 4, 5).reshape(1, 16, 16) @ weight
    first, second = (traced(lambda f=f: Function(f), (1, 4, 8, 8)).links()[0] for f in (one, other))
    assert (first.axes, first.whole) == (second.axes, second.whole)


@pytest.mark.parametrize(("size", "stride", "found"), [(1, 1, None), (2, 2, None), (2, 1, "picked")])
def test_an_image_folded_from_windows_side_by_side_passes_tiles(size: int, stride: int, found: str | None) -> None:
    side = (8 - size) // stride + 1

    def folded(x: torch.Tensor) -> torch.Tensor:
        points = torch.empty(4 * size * size, 16, device="meta") @ x
        image = functional.fold(points, 8, size, stride=stride)
        return functional.conv2d(image, torch.empty(4, 4, 1, 1, device="meta"))
    (link,) = traced(lambda: Function(folded), (1, 16, side * side)).links()
    assert (link.obstacle and link.obstacle.name, link.in_tiles) == (found, found is None)
