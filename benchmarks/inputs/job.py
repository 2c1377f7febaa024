"""The smallest training job whose step can be predicted."""

from __future__ import annotations

import torch

from elastane.predict.job import TrainingJob


def job() -> TrainingJob:
    """One linear layer."""
    return TrainingJob(
        torch.nn.Linear(8, 2),
        lambda size: (torch.randn(size, 8), torch.randn(size, 2)),
        lambda model, batch: ((model(batch[0]) - batch[1]) ** 2).mean(),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )
