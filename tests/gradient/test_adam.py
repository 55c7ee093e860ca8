"""The steps of the descents: torch's Adam without its optimiser, schedules, and threads."""

from __future__ import annotations

import pytest
import torch

from fadiff_mapper.gradient.adam import adam_step, cooled, one_torch_thread


def test_a_step_is_that_of_torch_s_optimiser() -> None:
    ours, theirs = (torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64, requires_grad=True) for _ in range(2))
    step, optimiser = adam_step(ours, 0.1), torch.optim.Adam([theirs], lr=0.1)
    for _ in range(20):
        for theta in (ours, theirs):
            (theta ** 2 * torch.tensor([1.0, 10.0, 0.1], dtype=torch.float64)).sum().backward()  # type: ignore[no-untyped-call]
        step()
        optimiser.step()
        optimiser.zero_grad()
        assert torch.equal(ours, theirs) and ours.grad is None


def test_a_part_of_a_first_step_moves_by_that_part() -> None:
    moved = []
    for part in (1.0, 0.25):
        theta = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
        (theta ** 2).sum().backward()  # type: ignore[no-untyped-call]
        adam_step(theta, 0.1)(part)
        moved.append(2.0 - theta.item())
    assert moved[1] == pytest.approx(0.25 * moved[0])


def test_temperature_and_weight_change_by_equal_factors() -> None:
    ratios, temperatures, weights = zip(*cooled(3, (8.0, 2.0), (1.0, 100.0)), strict=True)
    assert ratios == (0.0, 0.5, 1.0)
    assert temperatures == pytest.approx((8.0, 4.0, 2.0)) and weights == pytest.approx((1.0, 10.0, 100.0))
    assert list(cooled(1, (8.0, 2.0), (1.0, 100.0))) == [(0.0, 8.0, 1.0)]


def test_a_descent_leaves_the_threads_of_the_caller_as_they_were() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="the descent failed"), one_torch_thread():
        assert torch.get_num_threads() == 1
        raise ValueError("the descent failed")
    assert torch.get_num_threads() == before
