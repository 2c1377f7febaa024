"""Alone, an elastic script trains exactly like the plain loop it came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.data.order import Order
from elastane.train.errors import TrainError

SAMPLES, BATCH, EPOCHS = 50, 8, 3


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(run=tmp_path / "run", checkpoint_every=3600.0)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(SAMPLES, 6, generator=generator), torch.randint(3, (SAMPLES,), generator=generator)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


def plain(kind: str, *, clip: bool) -> nn.Module:
    x, y = data()
    model = network()
    opt = OPTIMIZERS[kind](model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(opt, 5, 0.9)
    for epoch in range(EPOCHS):
        order = torch.from_numpy(Order(SAMPLES, 0, True).indices(epoch, 0, SAMPLES))
        for at in range(0, SAMPLES, BATCH):
            rows = order[at : at + BATCH]
            opt.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            schedule.step()
    return model


def elastic(job: et.Job, kind: str, *, clip: bool, scaler: Any = None, **limits: Any) -> nn.Module:
    model = job.model(network())
    opt = job.optimizer(OPTIMIZERS[kind](model.parameters()), max_grad_norm=0.5 if clip else None)
    schedule = job.scheduler(torch.optim.lr_scheduler.StepLR(opt, 5, 0.9))
    gated = job.scaler(scaler) if scaler is not None else None
    loader = job.loader(TensorDataset(*data()), batch_size=BATCH, **limits)
    for _ in job.epochs(EPOCHS):
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            if gated is None:
                loss.backward()
                opt.step()
            else:
                gated.scale(loss).backward()
                gated.step(opt)
                gated.update()
            schedule.step()
            job.report(loss=loss)
    return model


def distance(one: nn.Module, other: nn.Module) -> float:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_fixed_mode_alone_is_the_plain_loop_to_the_last_bit(job: et.Job, kind: str) -> None:
    assert distance(elastic(job, kind, clip=False), plain(kind, clip=False)) == 0.0


def test_clipping_acts_on_the_whole_gradient(job: et.Job) -> None:
    assert distance(elastic(job, "sgd", clip=True), plain("sgd", clip=True)) < 1e-5


def test_a_loss_scaler_changes_nothing_but_the_scale(job: et.Job) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    assert distance(elastic(job, "sgd", clip=True, scaler=scaler), plain("sgd", clip=True)) < 1e-5


def test_a_batch_that_does_not_fit_at_once_is_accumulated(job: et.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_batch_norm() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))

    monkeypatch.setattr(f"{__name__}.network", without_batch_norm)
    found = elastic(job, "sgd", clip=False, max_per_worker=3)
    assert job.step == EPOCHS * -(-SAMPLES // BATCH)
    assert distance(found, plain("sgd", clip=False)) < 1e-6


def test_what_would_act_on_part_of_a_batch_is_refused(job: et.Job) -> None:
    model = job.model(network())
    opt = job.optimizer(OPTIMIZERS["sgd"](model.parameters()))
    with pytest.raises(TrainError, match="closure"):
        opt.step(lambda: 0.0)
    with pytest.raises(TrainError, match="outside the loop"):
        opt.step()
    with pytest.raises(TrainError, match="'ema' cannot be saved"):
        job.register("ema", object())


def test_unknown_modes_and_rules_are_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match=r"'adaptiv'.*did you mean 'adaptive'"):
        et.init("adaptiv", run=tmp_path)
    with pytest.raises(TrainError, match="virtual: must be 1 or more"):
        et.init("consistent", virtual=0, run=tmp_path)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.filterwarnings("error")
def test_a_scheduler_does_not_warn_whether_it_was_made_before_or_after(job: et.Job, before: bool) -> None:
    model = job.model(nn.Linear(6, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    early = torch.optim.lr_scheduler.StepLR(opt, 10) if before else None
    job.optimizer(opt)
    schedule = job.scheduler(early or torch.optim.lr_scheduler.StepLR(opt, 10))
    for x, _ in job.loader(TensorDataset(*data()), batch_size=BATCH):
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()
        schedule.step()
    assert schedule.last_epoch == -(-SAMPLES // BATCH)
