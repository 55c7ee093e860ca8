"""Operators of PyTorch that hold products, in whatever form: counted as products by hand, or named with their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.flop_counter import FlopCounterMode

from fadiff_mapper import FadiffError, SpecError, Workload, load_network
from fadiff_mapper.workload import coverage
from fadiff_mapper.workload.coverage import require_coverage


class Module(nn.Module):
    """A function of the module and tensors, with parts and constants."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(self, *tensors)


def read(function: Callable[..., Any], *tensors: torch.Tensor, **parts: Any) -> Workload:
    return load_network(Module(function, **parts), tensors)


def bytes_of(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int8)


def halves(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def complex_of(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.cfloat)


def counted(function: Callable[..., Any], *tensors: torch.Tensor, **parts: Any) -> int:
    """Multiply-accumulates of a network of which nothing is left out."""
    network = read(function, *tensors, **parts)
    assert coverage(network).complete and network.not_understood() == ()
    return network.macs + sum(entry.macs for entry in network.folded)


# Quantised and grouped products

@pytest.mark.parametrize(("function", "x", "parts", "macs"), [
    (lambda s, x: torch._int_mm(x, s.w), bytes_of(32, 64), {"w": bytes_of(64, 128)}, 32 * 64 * 128),
    (lambda s, x: torch._weight_int8pack_mm(x, s.w, s.c), halves(4, 64), {"w": bytes_of(128, 64), "c": halves(128)},
     4 * 64 * 128),
    (lambda s, x: torch._scaled_mm(x, s.w.t(), s.c, s.c, out_dtype=torch.bfloat16),
     torch.zeros(32, 64).to(torch.float8_e4m3fn),
     {"w": torch.zeros(128, 64).to(torch.float8_e4m3fn), "c": torch.ones(())}, 32 * 64 * 128),
    (lambda s, x: torch.ops.aten._weight_int4pack_mm_for_cpu(x, s.w, 32, s.c), halves(4, 64),
     {"w": torch.zeros(128, 32, dtype=torch.uint8), "c": halves(2, 128, 2)}, 4 * 64 * 128),
    (lambda s, x: torch.ops.aten._addmm_activation(s.c, x, s.w), torch.zeros(4, 8),
     {"w": torch.zeros(8, 5), "c": torch.zeros(5)}, 4 * 8 * 5)])
def test_products_of_quantised_numbers_are_counted(function: Callable[..., Any], x: torch.Tensor, parts: Any,
                                                   macs: int) -> None:
    assert counted(function, x, **parts) == macs


@pytest.mark.parametrize(("left", "right", "macs"), [
    ((32, 16), (4, 16, 8), 32 * 16 * 8), ((4, 8, 16), (4, 16, 8), 4 * 8 * 16 * 8)])
def test_grouped_products_are_counted(left: tuple[int, ...], right: tuple[int, ...], macs: int) -> None:
    ends = torch.tensor([8, 16, 24, 32], dtype=torch.int32) if len(left) == 2 else None
    assert counted(lambda s, x: torch._grouped_mm(x, s.w, s.e), halves(*left), w=halves(*right), e=ends) == macs


def test_grouped_products_of_other_axes_are_named_with_their_size() -> None:
    """Groups of the inner axis, as in the gradient of experts' weights: [4, 16, 8] in all."""
    ends = torch.tensor([8, 16, 24, 32], dtype=torch.int32)
    network = read(lambda s, x, y: torch._grouped_mm(x, y, s.e) @ s.w, halves(16, 32), halves(32, 8), e=ends,
                   w=halves(8, 2))
    assert [(node.what, node.macs) for node in network.not_understood()] == [("_grouped_mm", 16 * 32 * 8)]


# Einsum

@pytest.mark.parametrize(("equation", "shapes", "macs"), [
    ("ij,jk,kl->il", ((3, 4), (4, 5), (5, 6)), 3 * 4 * 5 + 3 * 5 * 6),
    ("bi,bj,bij->b", ((2, 3), (2, 4), (2, 3, 4)), 2 * 3 * 4),
    ("i,ij,j->", ((3,), (3, 4), (4,)), 3 * 4 + 4),
    ("ijk,jl->il", ((3, 4, 5), (4, 6)), 3 * 4 * 6), ("ii,ij->j", ((3, 3), (3, 4)), 3 * 4),
    ("...d,de->...e", ((2, 3, 4), (4, 5)), 2 * 3 * 4 * 5), ("b...d,bd->b...", ((2, 3, 4), (2, 4)), 2 * 3 * 4),
    ("bij,jk", ((1, 3, 4), (4, 5)), 3 * 4 * 5)])
def test_einsums_of_any_number_of_tensors_are_products_from_left_to_right(
        equation: str, shapes: tuple[tuple[int, ...], ...], macs: int) -> None:
    assert counted(lambda s, *tensors: torch.einsum(equation, *tensors), *map(torch.zeros, shapes)) == macs


# Conditions, loops, modified attention

@pytest.mark.slow
def test_of_a_condition_the_larger_branch_runs_and_that_is_said() -> None:
    def function(s: Any, x: torch.Tensor) -> torch.Tensor:
        return s.c(torch.cond(x.sum() > 0, lambda y: s.a(y), lambda y: s.b(s.a(y)), (x,)))
    network = read(function, torch.zeros(4, 64), a=nn.Linear(64, 64), b=nn.Linear(64, 64), c=nn.Linear(64, 8))
    assert network.macs == 2 * 4 * 64 * 64 + 4 * 64 * 8
    assert coverage(network).assumed == {"the branch of a condition with more multiply-accumulates runs": 2}


@pytest.mark.slow
def test_a_scan_runs_its_body_once_for_every_entry() -> None:
    from torch._higher_order_ops.scan import scan

    def function(s: Any, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = scan(lambda c, i: ((n := torch.tanh(s.a(c) + i)), n.clone()), h, x)[1]
        return out @ s.w
    network = read(function, torch.zeros(6, 4, 8), torch.zeros(4, 8), a=nn.Linear(8, 8), w=torch.zeros(8, 3))
    assert [(node.layer.repeat, node.layer.macs) for node in network.layers if node.layer] == [
        (6, 6 * 4 * 8 * 8), (1, 6 * 4 * 8 * 3)]
    assert [link.obstacle and link.obstacle.name for link in network.links()] == ["in_turn"]
    assert coverage(network).complete


def test_a_map_runs_padded_convolutions_too() -> None:
    from torch._higher_order_ops.map import map as mapped
    assert counted(lambda s, x: mapped(lambda i: s.a(i), x), torch.zeros(6, 2, 4, 5, 5),
                   a=nn.Conv2d(4, 8, 3, padding=1)) == 6 * 2 * 25 * 9 * 4 * 8


@pytest.mark.slow
def test_a_loop_whose_passes_data_decide_counts_as_one_pass_and_makes_the_share_a_bound() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def function(s: Any, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = while_loop(lambda i, y: i < y.sum(), lambda i, y: (i + 1, s.a(s.a(y))),
                                       (torch.tensor(0), x))[1]
        return s.a(out)
    found = coverage(read(function, torch.zeros(4, 8), a=nn.Linear(8, 8)))
    assert (found.understood, found.possible, found.share) == (256, 512, 1 / 3)
    assert "at most 33.33 %" in found.sentences()[0] and "how many while_loop has is not known" in found.sentences()[0]


def test_modified_attention_is_attention_between_all_tokens() -> None:
    """4 query heads of 8 on two of keys, 128 tokens: scores and weighted sums; whatever changes scores."""
    def function(s: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        out = flex_attention(q, k, k, score_mod=lambda score, b, h, i, j: score + i - j, enable_gqa=True)
        assert isinstance(out, torch.Tensor)
        return out @ s.w
    network = read(function, torch.zeros(1, 4, 128, 8), torch.zeros(1, 2, 128, 8), w=torch.zeros(8, 3))
    assert network.macs == 2 * 4 * 128 * 128 * 8 + 4 * 128 * 8 * 3
    assert coverage(network).complete
    assert [node.layer.repeat for node in network.layers if node.layer] == [2, 2, 1]
    assert "every query attends to every key, whatever a mask of blocks leaves out" in coverage(network).assumed


def test_a_map_over_a_batch_is_a_product_of_the_batch() -> None:
    assert counted(lambda s, x: torch.vmap(lambda i: s.a(i))(x), torch.zeros(6, 4, 8), a=nn.Linear(8, 5)) == 6 * 4 * 40


def test_a_map_over_a_batch_that_pytorch_cannot_take_apart_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise AssertionError("PyTorch cannot make it explicit")
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", fails)
    with pytest.raises(SpecError, match=r"torch\.func.*accepted: an axis for the batch"):
        read(lambda s, x: torch.vmap(lambda i: s.a(i))(x), torch.zeros(6, 4, 8), a=nn.Linear(8, 5))


# Operators of others

@torch.library.custom_op("stranger::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


@product.register_fake
def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


@torch.library.custom_op("stranger::written", mutates_args=("out",))
def written(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(a @ b)


@written.register_fake
def _(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    return None


def returned(s: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = s.a(product(x, s.w))
    return result


def in_place(s: Any, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, 16)
    written(x, s.w, out)
    result: torch.Tensor = s.a(out)
    return result


@pytest.mark.parametrize(("function", "name"), [(returned, "stranger::product"), (in_place, "stranger::written")])
def test_an_operator_that_nobody_knows_counts_as_one_product_of_its_tensors(function: Any, name: str) -> None:
    """[4, 8] times weights [8, 16], as the inequality of Loomis and Whitney bounds it, beside 4 * 16 * 2."""
    network = read(function, torch.zeros(4, 8), w=torch.zeros(8, 16), a=nn.Linear(16, 2))
    (node,) = coverage(network).uncounted
    assert node.what == name and node.possible is not None and 512 <= node.possible < 1.5 * 512
    with pytest.raises(FadiffError, match=rf"at most .* how many {name} has is not known.*accepted: at least 90%"):
        require_coverage(network, False, "--flag")
    require_coverage(network, True, "--flag")


# Fourier transforms

@pytest.mark.parametrize(("function", "macs"), [
    (lambda x: torch.fft.fft(x + 1j), 2 * 4 * 64 * 6), (torch.fft.fft, 4 * 64 * 6), (torch.fft.rfft, 4 * 64 * 6),
    (lambda x: torch.fft.irfft(x[:, :33]), 4 * 64 * 6), (lambda x: torch.fft.rfft2(x.view(4, 8, 8)), 4 * 64 * 6)])
def test_fourier_transforms_are_named_with_the_size_of_a_fast_one(function: Any, macs: int) -> None:
    """64 points: 32 * log2(64) complex products of four each, for real signals half of that; 4 rows."""
    named = read(lambda s, x: function(x @ s.w).real, torch.zeros(4, 8), w=torch.zeros(8, 64)).not_understood()
    assert sum(node.macs or 0 for node in named) == macs
    assert all(node.macs is not None for node in named)


# Complex numbers

@pytest.mark.parametrize(("function", "shapes", "points"), [
    (lambda s, x, y: x @ y, ((8, 64), (64, 96)), 8 * 64 * 96),
    (lambda s, x, y: torch.bmm(x, y), ((3, 8, 6), (3, 6, 5)), 3 * 8 * 6 * 5),
    (lambda s, x, y: x @ y, ((2, 3, 8, 6), (6, 5)), 2 * 3 * 8 * 6 * 5), (lambda s, x, y: x @ y, ((6,), (6, 5)), 30),
    (lambda s, x, y: nn.functional.linear(x, y), ((7, 6), (5, 6)), 7 * 6 * 5),
    (lambda s, x, y: torch.addmm(x @ y, x, y), ((4, 6), (6, 5)), 2 * 4 * 6 * 5),
    (lambda s, x, y: torch.einsum("bixy,ioxy->boxy", x, y), ((2, 3, 4, 4), (3, 5, 4, 4)), 2 * 3 * 5 * 16)])
@pytest.mark.parametrize("constant", [False, True])
def test_complex_products_have_four_multiply_accumulates_a_point(
        function: Callable[..., torch.Tensor], shapes: tuple[tuple[int, ...], tuple[int, ...]], points: int,
        constant: bool) -> None:
    x, y = map(torch.zeros, shapes)
    if constant:
        weights = y.to(torch.cfloat)
        assert counted(lambda s, x: function(s, x.to(torch.cfloat), s.w).abs(), x, w=weights) == 4 * points
    else:
        assert counted(lambda s, x, y: function(s, x.to(torch.cfloat), y.to(torch.cfloat)).abs(), x, y) == 4 * points


def test_a_complex_convolution_is_named_with_four_multiply_accumulates_a_point() -> None:
    network = read(lambda s, x: nn.functional.conv1d(x.to(torch.cfloat), s.w).abs() @ s.v, torch.zeros(1, 4, 8),
                   w=complex_of(5, 4, 3), v=torch.zeros(6, 2))
    assert [(node.what, node.macs) for node in network.not_understood()] == [("complex conv1d", 4 * 6 * 5 * 4 * 3)]


# Products written out

W = torch.zeros(128, 64)


@pytest.mark.parametrize(("function", "bounds"), [
    (lambda s, x: (x[:, None, :] * s.w[None]).sum(-1), (16, 64, 128)),
    (lambda s, x: (s.w[None] * x[:, None, :] / 8).mean(-1, keepdim=True), (16, 64, 128)),
    (lambda s, x: (x.unsqueeze(1).expand(16, 128, 64) * s.w).sum(dim=2), (16, 64, 128)),
    (lambda s, x: (x[:1, None, :] * s.w).sum(-1), (1, 64, 128)), (lambda s, x: (x * s.w[0]).sum(-1), (16, 64, 1)),
    (lambda s, x: (x[:, :, None] * x[:, None, :]).sum(0), (64, 16, 64))])
def test_a_multiplication_and_a_sum_are_the_product_that_they_make(function: Any, bounds: tuple[int, int, int]) -> None:
    network = read(lambda s, x: function(s, x).relu(), torch.zeros(16, 64), w=W)
    (node,) = network.layers
    assert node.layer is not None and coverage(network).complete
    assert tuple(node.layer.problem.bounds[dim] for dim in "NCM") == bounds
    assert not {"mul", "sum", "mean", "expand"} & {other.op for other in network.nodes}


def test_a_product_that_is_written_out_hands_on_tiles() -> None:
    network = read(lambda s, x: (s.a(x)[:, None, :] * s.w).sum(-1) @ s.v, torch.zeros(16, 8), a=nn.Linear(8, 64), w=W,
                   v=torch.zeros(128, 4))
    assert network.macs == 16 * 8 * 64 + 16 * 64 * 128 + 16 * 128 * 4
    assert [(link.fusable, link.in_tiles) for link in network.links()] == [(True, True)] * 2


def test_sums_of_products_that_take_no_more_steps_than_points_are_named_and_stay_steps() -> None:
    """Weights of parts [16, 4, 1] of [16, 4, 64]: as many steps as the larger one has points."""
    network = read(lambda s, x, y: ((x @ s.w).view(16, 4, 64) * y[:, :, None]).sum(1), torch.zeros(16, 8),
                   torch.zeros(16, 4), w=torch.zeros(8, 256))
    found = coverage(network)
    assert [(entry.what, entry.macs) for entry in found.sums] == [("sum of products point by point", 16 * 4 * 64)]
    assert (found.missing, found.share) == (4096, 32768 / (32768 + 4096))
    assert "sum" in [node.op for node in network.nodes] and network.not_understood() == ()


def test_lengths_of_rows_and_sums_of_what_others_read_are_steps_without_products() -> None:
    for function in (lambda y: (y * y).sum(-1), lambda y: (y * y.exp()).sum(-1),
                     lambda y: (lambda p: p / p.sum(-1, keepdim=True))(y * torch.ones(64))):
        found = coverage(read(lambda s, x, f=function: f(x @ s.w), torch.zeros(16, 8), w=torch.zeros(8, 64)))
        assert (found.understood, found.missing, found.complete) == (16 * 8 * 64, 0, True)


def test_other_reductions_of_all_pairs_are_named_with_their_points() -> None:
    for function, what in ((lambda x, y: (x - y).pow(2).sum(-1), "sum of all pairs (sub)"),
                           (lambda x, y: (x + y).amax(-1), "amax of all pairs (add)"),
                           (lambda x, y: (x * y).relu().mean(-1), "mean of all pairs (mul)"),
                           (lambda x, y: (x * y).view(16, 12, 2, 4).sum((2, 3)), "sum of all pairs (mul)"),
                           (lambda x, y: (x * y).cumsum(-1)[..., -1], "cumsum of all pairs (mul)")):
        network = read(lambda s, x, y, f=function: f((x @ s.w)[:, None], y[None]), torch.zeros(16, 8),
                       torch.zeros(12, 8), w=torch.zeros(8, 8))
        assert [(node.what, node.macs) for node in network.not_understood()] == [(what, 16 * 12 * 8)]


def test_a_check_of_values_is_no_operator() -> None:
    network = read(lambda s, x: torch.linalg.inv(x @ s.w) @ s.w, torch.zeros(8, 8), w=torch.zeros(8, 8))
    assert {(node.what, node.possible) for node in network.not_understood()} == {("linalg_inv_ex", 515),
                                                                                ("linalg_inv_ex", None)}


# PyTorch's own count

@pytest.mark.parametrize(("function", "shapes"), [
    (lambda x, y: torch.einsum("ij,jk,kl->il", x, y, x), ((3, 4), (4, 3))),
    (lambda x, y: torch.baddbmm(x @ y, x, y), ((2, 3, 4), (2, 4, 5))),
    (lambda x, y: torch.linalg.multi_dot([x, y, x, y]), ((3, 4), (4, 3))),
    (lambda x, y: torch.inner(x, y), ((3, 4), (5, 4))),
    (lambda x, y: torch.kron(x @ x, y), ((3, 3), (4, 5)))])
def test_counts_are_those_of_pytorchs_own_counter(function: Callable[..., Any],
                                                  shapes: tuple[tuple[int, ...], ...]) -> None:
    tensors = [torch.zeros(shape) for shape in shapes]
    with FlopCounterMode(display=False) as counter:
        function(*tensors)
    assert counted(lambda s, *given: function(*given), *tensors) == counter.get_total_flops() // 2
