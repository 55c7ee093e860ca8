"""Embeddings of operators: the middle layer of an autoencoder that is trained on the shapes of many networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.agatf.network_weights import adam_step, seed_weights

EMBEDDED = 8
"""Numbers of an embedding."""

HIDDEN, STEPS, RATE = 32, 600, 3e-3
"""Width, steps of Adam over all operators at once, and their size. Set by hand, not measured."""


@dataclass(frozen=True)
class Embedding:
    """A trained encoder.

    Attributes:
        mean: Of each feature over the operators that it was trained on, [F].
        deviation: Likewise, [F].
        encoder: From features to embeddings.
        error: Mean squared error of features that come back, in deviations.
    """

    mean: np.ndarray
    deviation: np.ndarray
    encoder: torch.nn.Module
    error: float

    def __call__(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The embedding of every operator, by name, [EMBEDDED]."""
        rows = (np.array(list(features.values())) - self.mean) / self.deviation
        with torch.no_grad():
            embedded = self.encoder(torch.tensor(rows, dtype=torch.float32)).numpy()
        return dict(zip(features, embedded, strict=True))


def trained_embedding(features: np.ndarray, seed: int, steps: int = STEPS) -> Embedding:
    """Trains an autoencoder.

    Args:
        features: Of distinct operators, [O, F].
        seed: Seed of the first weights.
        steps: Steps of Adam.
    """
    generator = torch.Generator().manual_seed(seed)
    mean, deviation = features.mean(0), features.std(0)
    deviation = np.where(deviation > 1e-9, deviation, 1.0)
    rows = torch.tensor((features - mean) / deviation, dtype=torch.float32)
    encoder = torch.nn.Sequential(torch.nn.Linear(rows.shape[1], HIDDEN), torch.nn.Tanh(),
                                  torch.nn.Linear(HIDDEN, EMBEDDED), torch.nn.Tanh())
    decoder = torch.nn.Sequential(torch.nn.Linear(EMBEDDED, HIDDEN), torch.nn.Tanh(),
                                  torch.nn.Linear(HIDDEN, rows.shape[1]))
    both = torch.nn.Sequential(encoder, decoder)
    seed_weights(both, generator)
    step = adam_step(both, RATE)
    loss = torch.zeros(())
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(both(rows), rows)
        step(loss)
    return Embedding(mean, deviation, encoder, float(loss.detach()))
