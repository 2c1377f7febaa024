"""The models of the benchmarks, each with data to train on; nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import TensorDataset


def mlp(*widths: int) -> nn.Module:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    """Four convolutions on 16 × 16 images of three colours."""

    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]

    body = [*block(3, 32, 1), *block(32, 64, 2), *block(64, 128, 2), *block(128, 128, 1)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(512, 10))


class Transformer(nn.Module):
    """Sixteen symbols in, a class out."""

    def __init__(self, width: int = 128, depth: int = 2, symbols: int = 64) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.embed = nn.Embedding(symbols, width)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, text: Tensor) -> Tensor:
        """Scores of the classes."""
        scores: Tensor = self.head(self.body(self.embed(text)).mean(1))
        return scores


def learn(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The loss of one batch, after its gradients have been computed."""
    loss = F.cross_entropy(model(inputs), labels)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def write_result(path: str, result: object) -> None:
    """As JSON, whole or not at all."""
    part = Path(f"{path}.part")
    part.write_text(json.dumps(result))
    part.replace(path)


def _normal(*shape: int) -> Callable[[int], Tensor]:
    return lambda samples: torch.randn(samples, *shape, generator=torch.Generator().manual_seed(samples))


@dataclass(frozen=True)
class Task:
    """A model and what it is fed; ``batch`` is of a whole step."""

    model: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    batch: int

    def network(self) -> nn.Module:
        """The model with the same first parameters everywhere."""
        torch.manual_seed(0)
        return self.model()

    def data(self, samples: int) -> TensorDataset:
        """So many labelled samples."""
        labels = torch.arange(samples) % 10
        return TensorDataset(self.inputs(samples), labels)


TASKS = {
    # With AdamW: 0.66 M parameters, 7.9 MB of state, and 25.2 M, 302 MB.
    "small": Task(lambda: mlp(256, 680, 680, 32), _normal(256), 256),
    "large": Task(lambda: mlp(256, 3400, 3400, 3400, 340), _normal(256), 32),
    "cnn": Task(cnn, _normal(3, 16, 16), 64),
    "transformer": Task(
        Transformer, lambda n: torch.randint(0, 64, (n, 16), generator=torch.Generator().manual_seed(n)), 64
    ),
    "mlp": Task(lambda: mlp(784, 512, 512, 10), _normal(784), 512),
}
