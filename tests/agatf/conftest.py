"""Lets the tests import `benchmarks`, which is no installed package, and keeps torch to one thread, as jobs do."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2]))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks of a hundred neurons are faster without threads that wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
