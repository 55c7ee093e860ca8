"""The share of a network that a plan accounts for: stated everywhere, and refused where it is small."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from fadiff_mapper import FadiffError, load_network
from fadiff_mapper.cli import main
from fadiff_mapper.workload import Node, Workload, build_workload, coverage
from fadiff_mapper.workload.coverage import require_coverage
from fadiff_mapper.workload.operator import make_operator
from fadiff_mapper.workload.readers.network_text import network_text
from fadiff_mapper.workload.shapes import possible_macs

NETWORK = """workload:
  version: 1
  name: part
  inputs: {{x: [4, 8]}}
  shapes:
  - {{id: fc, op: gemm, dims: {{N: 4, M: 8, C: 8, P: 1, Q: 1, R: 1, S: 1}}}}
  graph:
  - {{name: first, shape: fc, from: [x]}}
  - {{name: odd, op: not_understood, what: spectrum, {macs}from: [first], out: [4, 8]}}
  - {{name: second, shape: fc, from: [odd]}}
  - {{name: sum, op: add, from: [second, x]}}
"""


def part(tmp_path: Path, macs: int | None) -> Path:
    """A network of 512 multiply-accumulates, and some that are not understood."""
    path = tmp_path / "part.yaml"
    path.write_text(NETWORK.format(macs="" if macs is None else f"macs: {macs}, "))
    return path


@pytest.mark.parametrize(("macs", "share", "complete"), [(0, 1, True), (128, 0.8, False),
                                                         (None, 512 / (512 + 181), False)])
def test_the_share_is_of_all_known_and_possible_multiply_accumulates(tmp_path: Path, macs: int | None, share: float,
                                                                     complete: bool) -> None:
    """A node of unknown size reads and writes 32 words: floor(sqrt(32 * 32 * 32)) in one product of these."""
    found = coverage(load_network(part(tmp_path, macs)))
    assert (found.understood, found.share, found.complete) == (512, share, complete)


def test_sentences_say_what_is_left_out_and_what_is_charged_apart(tmp_path: Path) -> None:
    assert coverage(load_network(part(tmp_path, 128))).sentences() == [
        "understood: 80 % (512 of 640 multiply-accumulates)", "left out: spectrum (odd), 20 %",
        "charged apart: 32 words that 1 sums, products and the like read besides the tensor that flows on, such as "
        "residual operands", "not counted: 32 operations of 1 operator (32 add)"]
    assert coverage(load_network(part(tmp_path, None))).sentences()[0] == (
        "understood: at most 73.88 % (512 of 693 multiply-accumulates); how many spectrum has is not known, and counts "
        "as 181: one product of its tensors, or one pass of its loop")


def test_a_share_is_100_percent_only_where_it_is_whole() -> None:
    layer = make_operator("gemm", {"N": 10000, "M": 100, "C": 100, "P": 1, "Q": 1, "R": 1, "S": 1})
    odd = Node("odd", "not_understood", ("x",), (1,), what="odd", macs=1)
    network = build_workload("big", [Node("x", "input", shape=(10000, 100)), odd,
                                     Node("fc", "gemm", ("x",), layer=layer, operands=("Inputs",))])
    assert coverage(network).sentences()[0].startswith("understood: 99.99 %")


def test_less_than_nine_tenths_is_refused_unless_it_is_asked_for(tmp_path: Path) -> None:
    network = load_network(part(tmp_path, 128))
    with pytest.raises(FadiffError, match=r"understood: 80 %.*left out: spectrum.*accepted: at least 90%, or --flag"):
        require_coverage(network, False, "--flag")
    require_coverage(network, True, "--flag")
    require_coverage(load_network(part(tmp_path, 56)), False, "--flag")


def test_what_may_hold_products_is_refused_like_what_does(tmp_path: Path) -> None:
    path = part(tmp_path, None)
    with pytest.raises(FadiffError, match=r"understood: at most 73\.88 %.*accepted: at least 90%, or --flag"):
        require_coverage(load_network(path), False, "--flag")
    path.write_text(path.read_text().replace("what: spectrum,", "what: spectrum, possible: 20,"))
    network = load_network(path)
    require_coverage(network, False, "--flag")
    assert (coverage(network).share, coverage(network).complete) == (512 / 532, False)
    path.write_text(network_text(network))
    assert load_network(path) == network


def test_no_contraction_of_tensors_has_more_products_than_their_shapes_allow() -> None:
    """sqrt(a b c), which a matrix product reaches; a batch or a sum of products over fewer axes stays below."""
    assert possible_macs([(4, 8), (8, 16)], [(4, 16)]) == 4 * 8 * 16
    assert possible_macs([(5, 4, 8), (5, 8, 16)], [(5, 4, 16)]) >= 5 * 4 * 8 * 16
    assert possible_macs([(4, 8), (2,), (8, 16)], [(4, 16), ()]) >= 4 * 8 * 16
    assert possible_macs([(8, 8)], [(8, 8)]) == 8 ** 3, "one operand counts twice, as of an inverse"
    assert possible_macs([(4, 8), None], [None]) == 181 and possible_macs([None], [(4,)]) is None
    assert possible_macs([], [(4,)]) == 0, "what reads nothing multiplies nothing"


def test_sums_of_products_that_stay_steps_are_left_out_by_name(tmp_path: Path) -> None:
    path = part(tmp_path, 0)
    path.write_text(path.read_text() + "  - {name: total, op: sum, axes: [1], macs: 32, from: [sum]}\n")
    found = coverage(load_network(path))
    assert (found.share, found.missing) == (512 / 544, 32)
    assert "left out: sum of products point by point (total), 5.882 %" in found.sentences()


def test_the_command_refuses_before_it_searches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", str(part(tmp_path, 128)), "bundled:arch/gemmini_small", "-o", str(tmp_path / "out")]) == 2
    assert "understood: 80 %" in (line := capsys.readouterr().err) and "--allow-partial" in line
    assert not (tmp_path / "out").exists()


def test_an_import_says_what_is_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(part(tmp_path, 128)), "-o", str(tmp_path / "net.yaml")]) == 0
    assert "WARNING: only a part of this network is understood: 80 %" in capsys.readouterr().out


def test_a_whole_network_is_not_warned_about() -> None:
    network: Workload = load_network("bundled:networks/resnet18")
    found = coverage(network)
    assert (found.complete, found.missing, found.joins) == (True, 0, 8)
    assert found.joined_words == sum(2 * size for size in (64 * 3136, 128 * 784, 256 * 196, 512 * 49))


class SmallDecoder(nn.Module):
    """Attention over 32 positions and a head over a vocabulary of 1,000 words, at every position or at the last."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.words, self.head, self.last = nn.Embedding(1000, 64), nn.Linear(64, 1000), last
        self.operands = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        x = x + nn.functional.scaled_dot_product_attention(*(linear(x) for linear in self.operands), is_causal=True)
        return self.head(x[:, -1:] if self.last else x)


def test_a_head_over_all_positions_is_pointed_out() -> None:
    tokens = torch.zeros(1, 32, dtype=torch.long)
    every, last = (coverage(load_network(SmallDecoder(last), (tokens,))) for last in (False, True))
    assert "head makes 1,000 outputs at each of 32 positions" in every.sentences()[-1]
    assert every.as_dict()["head"] == every.head
    assert not last.head and "head" not in last.as_dict()
