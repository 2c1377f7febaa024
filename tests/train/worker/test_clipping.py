"""Clipping is done to the whole gradient of a step, whoever is asked for it, and nobody else's is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.errors import TrainError
from train.running import train

GENERATOR = torch.Generator().manual_seed(1)
X = torch.randn(60, 8, generator=GENERATOR)
Y = torch.randint(0, 3, (60,), generator=GENERATOR)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(run=tmp_path / "run", checkpoint_every=3600.0)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def values(model: nn.Module) -> list[float]:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()


def plain() -> list[float]:
    model = network()
    opt = optimizer(model)
    for _ in range(5):
        for inputs, labels in zip(X.split(16), Y.split(16), strict=True):
            opt.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            clip_grad_norm_(model.parameters(), 0.05)
            clip_grad_value_(model[2].parameters(), 0.01)
            opt.step()
    return values(model)


@pytest.mark.parametrize(("workers", "mode"), [(1, "fixed"), (3, "fixed"), (2, "consistent")])
def test_pytorchs_own_clipping_is_done_to_the_whole_gradient_with_any_number_of_workers(
    tmp_path: Path, workers: int, mode: str
) -> None:
    out = tmp_path / "out"
    done = train("clipping.py", tmp_path / "run", str(out), workers=workers, mode=mode)
    assert done.ended.outcome == "finished", done.ended
    assert [float(value) for value in out.read_text().split()] == pytest.approx(plain(), rel=1e-3, abs=1e-5)


def body(job: et.Job, act: Any) -> nn.Module:
    """Four steps; ``act`` is what the loop body does between ``backward`` and ``step``."""
    model = job.model(network())
    opt = job.optimizer(optimizer(model))
    for inputs, labels in job.loader(TensorDataset(X, Y), batch_size=16, shuffle=False):
        opt.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        act(model)
        opt.step()
    return model


def test_the_norm_is_returned_as_pytorch_would(job: et.Job) -> None:
    model, labels = network(), Y[:16]
    F.cross_entropy(model(X[:16]), labels).backward()
    expected = float(clip_grad_norm_(model.parameters(), 0.05))
    norms: list[float] = []
    body(job, lambda trained: norms.append(float(clip_grad_norm_(trained.parameters(), 0.05))))
    assert norms[0] == pytest.approx(expected)


def test_models_that_are_not_the_jobs_are_clipped_as_ever(job: et.Job) -> None:
    def act(_: nn.Module) -> None:
        other = network()
        other(X).sum().backward()
        clip_grad_norm_(other.parameters(), 1.0)
        grads = [p.grad for p in other.parameters() if p.grad is not None]
        assert float(torch.nn.utils.get_total_norm(grads)) == pytest.approx(1.0, rel=1e-4)

    body(job, act)


def test_after_the_body_pytorchs_functions_are_its_own_again(job: et.Job) -> None:
    model = body(job, lambda _: None)
    model(X).sum().backward()
    clip_grad_value_(model.parameters(), 1e-3)
    assert max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None) <= 1.001e-3


def test_what_cannot_be_clipped_rightly_is_one_clear_line(job: et.Job) -> None:
    stray = nn.Parameter(torch.ones(2, 3))
    stray.grad = torch.ones(2, 3)

    def act(model: nn.Module) -> None:
        with pytest.raises(TrainError, match=r"clip_grads_with_norm_.*write job.clip_grad_norm_"):
            torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, torch.ones(()))
        with pytest.raises(
            TrainError, match=r"parameter \(2x3\) with a gradient that the job's optimizer does not"
        ):
            clip_grad_norm_([*model.parameters(), stray], 1.0)

    body(job, act)


def test_unscaling_before_clipping_is_as_without_the_library(job: et.Job) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    model = job.model(network())
    opt = job.optimizer(optimizer(model))
    job.scaler(scaler)
    data = job.loader(TensorDataset(X, Y), batch_size=16, shuffle=False)
    for _ in job.epochs(5):
        for inputs, labels in data:
            opt.zero_grad()
            scaler.scale(F.cross_entropy(model(inputs), labels)).backward()
            scaler.unscale_(opt)
            clip_grad_norm_(model.parameters(), 0.05)
            clip_grad_value_(model[2].parameters(), 0.01)
            scaler.step(opt)
            scaler.update()
    assert values(model) == pytest.approx(plain(), rel=1e-3, abs=1e-5)


def test_a_loss_scaler_sees_what_is_not_finite_before_values_are_clipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    job = et.init(run=tmp_path / "run", checkpoint_every=3600.0)
    model = job.model(nn.Linear(1, 1, bias=False))
    before = model.weight.item()
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    scaler = job.scaler(torch.amp.GradScaler("cpu", init_scale=2.0))
    for (x,) in job.loader(TensorDataset(torch.full((4, 1), 1e38)), batch_size=4):
        opt.zero_grad()
        scaler.scale(1e3 * model(x).sum()).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.step(opt)
        scaler.update()
    assert model.weight.item() == before
    assert scaler.get_scale() == 1.0
