"""Small training jobs that tests predict."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elastane.predict.job import TrainingJob


class SmallNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = self.second(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Looking(SmallNet):
    """Its way depends on its data."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if x.mean() > 0 else -x)


def image_batch(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 3, 32, 32), torch.randint(0, 10, (size,))


def image_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def image_job(model: nn.Module | None = None) -> TrainingJob:
    return TrainingJob(model or SmallNet(), image_batch, image_loss, lambda p: torch.optim.SGD(p, lr=0.1))


def looking_job() -> TrainingJob:
    return image_job(Looking())


def mlp_job(optimizer: type[torch.optim.Optimizer] = torch.optim.SGD, width: int = 64) -> TrainingJob:
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    return TrainingJob(
        model,
        lambda size: torch.randn(size, width),
        lambda model, x: model(x).square().mean(),
        lambda parameters: optimizer(parameters, lr=0.1),  # type: ignore[call-arg]
    )


def lstm_job() -> TrainingJob:
    return TrainingJob(
        nn.LSTM(64, 128, 2),
        lambda size: torch.randn(20, size, 64),
        lambda model, x: model(x)[0].square().mean(),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )
