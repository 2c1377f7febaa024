"""Gradients accumulated over several batches train as one large batch does, with any number of workers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.errors import TrainError
from train.running import CHANGES, alone, numbers, train


def plain(epochs: int) -> list[float]:
    """The same training on large batches, without the library."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(140, 8, generator=generator)
    y = torch.randint(0, 3, (140,), generator=generator)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 10, 0.9)
    for _ in range(epochs):
        for inputs, labels in zip(x.split(32), y.split(32), strict=True):
            opt.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            schedule.step()
    return [epochs, 5 * epochs, *torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()]


@pytest.mark.parametrize("arguments", [[], ["--every"]])
@pytest.mark.parametrize("workers", [1, 3])
def test_it_trains_as_one_large_batch_does(tmp_path: Path, arguments: list[str], workers: int) -> None:
    out = tmp_path / "out"
    done = train("accumulating.py", tmp_path / "run", str(out), "--epochs=3", *arguments, workers=workers)
    assert done.ended.outcome == "finished", done.ended
    assert numbers(out) == pytest.approx(plain(3), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_it_does_through_resizes_and_a_kill(tmp_path: Path, mode: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    done = train("accumulating.py", tmp_path / "run", str(out), "--pause=0.01", wishes=CHANGES, mode=mode)
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    found = numbers(out)
    assert found == pytest.approx(plain(int(found[0])), rel=1e-3, abs=1e-4)
    if mode == "consistent":
        alone("accumulating.py", tmp_path / "alone", str(other), f"--epochs={int(found[0])}", mode=mode)
        assert other.read_text() == out.read_text()


def test_more_batches_than_virtual_ranks_are_consistent(tmp_path: Path) -> None:
    outs = [tmp_path / "one", tmp_path / "three"]
    for workers, out in zip((1, 3), outs, strict=True):
        arguments = (str(out), "--epochs=2", "--batches=16")
        done = train(
            "accumulating.py", tmp_path / f"run{workers}", *arguments, workers=workers, mode="consistent"
        )
        assert done.ended.outcome == "finished", done.ended
    assert outs[0].read_text() == outs[1].read_text()
    assert numbers(outs[0]) == pytest.approx(plain(2), rel=1e-4, abs=1e-6)


def test_adaptive_mode_accumulates_too(tmp_path: Path) -> None:
    done = train(
        "accumulating.py", tmp_path / "run", str(tmp_path / "out"), "--epochs=3", workers=2, mode="adaptive"
    )
    assert done.ended.outcome == "finished", done.ended


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    job = et.init(run=tmp_path / "run", checkpoint_every=3600.0)
    model = job.model(nn.Linear(1, 1))
    job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return job


def test_a_group_needs_a_step_at_its_end(job: et.Job) -> None:
    data = job.loader(TensorDataset(torch.ones(8, 1)), batch_size=2)
    job.accumulate(2)
    model = job._session.state.model
    assert model is not None
    turns = iter(data)
    model(next(turns)[0]).sum().backward()
    assert not job.step_due
    model(next(turns)[0]).sum().backward()
    assert job.step_due
    with pytest.raises(TrainError, match=r"if job\.step_due: opt\.step"):
        next(turns)


def test_what_cannot_be_accumulated_is_one_clear_line(job: et.Job) -> None:
    with pytest.raises(TrainError, match="must be 1 or more, not 0"):
        job.accumulate(0)
    job.all_reduce(1)
    with pytest.raises(TrainError, match="when training had begun"):
        job.accumulate(2)
