"""A loss that is a sum over samples is noticed if nobody said so; a mean never is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import elastane.train as et
from elastane.train.reports.events import Warned
from elastane.train.worker.loss_graph import Batch, is_sum
from train.running import train

N = 16
X = torch.randn(N, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % 4
TARGET = torch.rand(N, 4, generator=torch.Generator().manual_seed(1))
MASK = torch.arange(N) % 3 > 0
WEIGHTS = torch.full((N,), 1 / N)
MODEL = nn.Sequential(nn.Linear(8, N), nn.Tanh(), nn.Linear(N, 4))

Loss = Callable[[Tensor], Tensor]


def _vae(out: Tensor) -> Tensor:
    mu, logvar = out.chunk(2, 1)
    divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return F.binary_cross_entropy(torch.sigmoid(out), TARGET, reduction="sum") + divergence


def _penalty() -> Tensor:
    return sum((p.pow(2).sum() for p in MODEL.parameters()), torch.zeros(()))


SUMS: dict[str, Loss] = {
    "cross entropy": lambda out: F.cross_entropy(out, Y, reduction="sum"),
    "label smoothing": lambda out: F.cross_entropy(out, Y, reduction="sum", label_smoothing=0.1),
    "squared error": lambda out: F.mse_loss(out, TARGET, reduction="sum"),
    "absolute error": lambda out: F.l1_loss(out, TARGET, reduction="sum"),
    "logits": lambda out: F.binary_cross_entropy_with_logits(out, TARGET, reduction="sum"),
    "by hand": lambda out: ((out - TARGET) ** 2).sum(),
    "half by hand": lambda out: 0.5 * ((out - TARGET) ** 2).sum(),
    "of sums": lambda out: ((out - TARGET) ** 2).sum(1).sum(),
    "of means": lambda out: ((out - TARGET) ** 2).mean(1).sum(),
    "unreduced": lambda out: F.cross_entropy(out, Y, reduction="none").sum(),
    "autoencoder": _vae,
    "with a penalty": lambda out: F.cross_entropy(out, Y, reduction="sum") + 0.01 * _penalty(),
    "two terms": lambda out: torch.stack([F.cross_entropy(out, Y, reduction="sum"), out.abs().sum()]).sum(),
    "scaled": lambda out: F.cross_entropy(out, Y, reduction="sum") * torch.tensor(256.0),
    "accumulated": lambda out: F.cross_entropy(out, Y, reduction="sum") / 4,
}
MEANS: dict[str, Loss] = {
    "cross entropy": lambda out: F.cross_entropy(out, Y),
    "label smoothing": lambda out: F.cross_entropy(out, Y, label_smoothing=0.1),
    "class weights": lambda out: F.cross_entropy(out, Y, weight=torch.rand(4), ignore_index=2),
    "ignored and smooth": lambda out: F.cross_entropy(out, Y, ignore_index=2, label_smoothing=0.1),
    "probabilities": lambda out: F.cross_entropy(out, TARGET),
    "squared error": lambda out: F.mse_loss(out, TARGET),
    "smooth": lambda out: F.smooth_l1_loss(out, TARGET),
    "logits": lambda out: F.binary_cross_entropy_with_logits(out, TARGET),
    "divergence": lambda out: F.kl_div(F.log_softmax(out, 1), TARGET, reduction="batchmean"),
    "of sums": lambda out: ((out - TARGET) ** 2).sum(1).mean(),
    "sum of means": lambda out: ((out - TARGET) ** 2).mean(0).sum(),
    "divided": lambda out: F.cross_entropy(out, Y, reduction="sum") / N,
    "divided by length": lambda out: F.mse_loss(out, TARGET, reduction="sum") / float(len(out)),
    "times one over": lambda out: F.mse_loss(out, TARGET, reduction="sum") * (1 / N),
    "divided inside": lambda out: (F.cross_entropy(out, Y, reduction="none") / N).sum(),
    "weights": lambda out: (F.cross_entropy(out, Y, reduction="none") * WEIGHTS).sum(),
    "masked": lambda out: (F.cross_entropy(out, Y, reduction="none") * MASK).sum() / MASK.sum(),
    "masked sum": lambda out: F.cross_entropy(out, Y, reduction="sum") / MASK.sum(),
    "with a penalty": lambda out: F.cross_entropy(out, Y) + _penalty(),
    "with a scaled penalty": lambda out: F.cross_entropy(out, Y) + 0.5 * _penalty(),
    "only a penalty": lambda _: _penalty(),
    "drift": lambda out: out.mean() + F.mse_loss(MODEL[0].weight, torch.zeros(N, 8), reduction="sum"),
    "two terms": lambda out: torch.stack([F.cross_entropy(out, Y), out.abs().mean()]).sum(),
    "many terms": lambda out: torch.stack([F.cross_entropy(out, Y)] * N).sum(),
    "dice": lambda out: 1 - 2 * (out.sigmoid() * TARGET).sum() / (out.sigmoid().sum() + TARGET.sum()),
    "policy": lambda out: -(F.log_softmax(out, 1)[:, 0] * TARGET[:, 0]).mean(),
    "mixed": lambda out: F.cross_entropy(out, Y) + out.abs().sum(),
    "a number": lambda out: F.cross_entropy(out, Y).sum(),
    "checkpointed": lambda _: F.cross_entropy(checkpoint(MODEL, X, use_reentrant=False), Y),
}


@pytest.mark.parametrize("loss", SUMS)
def test_a_sum_is_seen_in_the_graph_of_the_loss(loss: str) -> None:
    assert is_sum(SUMS[loss](MODEL(X)), Batch(N, (256.0, 4.0)))


@pytest.mark.parametrize("loss", MEANS)
def test_a_mean_raises_no_false_alarm(loss: str) -> None:
    assert not is_sum(MEANS[loss](MODEL(X)), Batch(N, (1.0, 1.0)))


def test_one_sample_is_its_own_mean() -> None:
    assert not is_sum(MODEL(X[:1]).sum(), Batch(1))


@pytest.mark.parametrize(
    ("said", "workers", "mode", "warned"),
    [("unsaid", 1, "fixed", 1), ("unsaid", 2, "consistent", 1), ("mean", 2, "fixed", 0)],
)
def test_the_leader_warns_once_unless_the_script_says_what_its_loss_is(
    tmp_path: Path, said: str, workers: int, mode: str, warned: int
) -> None:
    done = train("sum_said.py", tmp_path / "run", said, workers=workers, mode=mode)
    assert done.ended.outcome == "finished", done.ended
    warnings = [event.text for event in done.events if isinstance(event, Warned)]
    assert len([text for text in warnings if 'job.model(model, loss="sum")' in text]) == warned, warnings


def test_backward_is_pytorchs_own_after_the_first_body(tmp_path: Path) -> None:
    original = torch.Tensor.backward
    job = et.init(run=tmp_path)
    model = job.model(nn.Linear(8, 4))
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for step, (x, y) in enumerate(job.loader(list(zip(X, Y, strict=True)), batch_size=8)):
        assert (torch.Tensor.backward is original) == bool(step)
        F.cross_entropy(model(x), y).backward()
        opt.step()
        assert torch.Tensor.backward is original
