"""A loss that is a sum over samples, said so, trains the same with any number of workers as without the library."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import elastane.train as et
from elastane.train.errors import TrainError
from train.running import train


def plain() -> list[float]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(60, 8, generator=generator)
    y = torch.randint(0, 3, (60,), generator=generator)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    for _ in range(5):
        for inputs, labels in zip(x.split(16), y.split(16), strict=True):
            opt.zero_grad()
            F.cross_entropy(model(inputs), labels, reduction="sum").backward()
            opt.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()


@pytest.mark.parametrize(("mode", "workers"), [("fixed", 1), ("fixed", 3), ("consistent", 2)])
def test_a_summed_loss_trains_as_without_the_library(tmp_path: Path, mode: str, workers: int) -> None:
    out = tmp_path / "out"
    done = train("summed.py", tmp_path / "run", str(out), workers=workers, mode=mode)
    assert done.ended.outcome == "finished", done.ended
    assert [float(value) for value in out.read_text().split()] == pytest.approx(plain(), rel=1e-4, abs=1e-6)


def test_a_loss_is_a_mean_or_a_sum(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="'mean' or 'sum', not 'average'"):
        et.init(run=tmp_path).model(nn.Linear(1, 1), loss="average")
