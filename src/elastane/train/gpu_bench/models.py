"""Three small models of different kinds, and batches for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

FEATURES, CLASSES, BATCH = 256, 10, 64


class _Attention(nn.Module):
    """A transformer over sixteen pieces of a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        scores: Tensor = self.head(self.layer(x.view(-1, 16, 16)).mean(1))
        return scores


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, CLASSES))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 16, 16)),
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 14 * 14, CLASSES),
    )


MODELS: Mapping[str, Callable[[], nn.Module]] = {"mlp": _mlp, "cnn": _cnn, "transformer": _Attention}


def samples(count: int) -> tuple[Tensor, Tensor]:
    """Inputs and their classes, always the same."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, FEATURES, generator=generator)
    return x, (x @ torch.randn(FEATURES, CLASSES, generator=generator)).argmax(1)
