"""``continue`` before ``opt.step()``: a skipped part counts neither gradient nor samples, on whichever worker it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.errors import TrainError
from train.running import CHANGES, alone, numbers, train


def plain(epochs: int, parts: int) -> list[float]:
    """The same without the library: batches in so many parts, of which bad ones are left out."""
    x = torch.randn(128, 5, generator=torch.Generator().manual_seed(1))
    for bad in (slice(32, 48), slice(72, 80), slice(80, 88), slice(110, 112), slice(112, 126)):
        x[bad] = torch.nan
    torch.manual_seed(0)
    model = nn.Linear(5, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 5, 0.9)
    for _ in range(epochs):
        for batch in x.split(16):
            good = [part for part in batch.chunk(parts) if torch.isfinite(part).all()]
            if good:
                opt.zero_grad()
                (model(torch.cat(good)) - 1.0).square().mean().backward()
                opt.step()
                schedule.step()
    values = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()
    return [epochs, 8 * epochs, schedule.last_epoch, *values]


def close(values: list[float]) -> object:
    return pytest.approx(values, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_step_is_the_mean_over_what_was_not_skipped(tmp_path: Path, workers: int) -> None:
    out = tmp_path / "out"
    done = train("skipping.py", tmp_path / "run", str(out), "--epochs=2", workers=workers)
    assert done.ended.outcome == "finished", done.ended
    assert numbers(out) == close(plain(2, workers))


@pytest.mark.parametrize("workers", [1, 3])
def test_accumulated_batches_can_be_skipped(tmp_path: Path, workers: int) -> None:
    out = tmp_path / "out"
    arguments = ("--epochs=2", "--accumulate=8")
    done = train("skipping.py", tmp_path / "run", str(out), *arguments, workers=workers, mode="consistent")
    assert done.ended.outcome == "finished", done.ended
    assert numbers(out) == close(plain(2, 8))


def test_consistent_mode_gives_the_same_bits_through_resizes_and_a_kill(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    done = train("skipping.py", tmp_path / "run", str(out), "--pause=0.002", wishes=CHANGES, mode="consistent")
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    epochs = int(numbers(out)[0])
    assert numbers(out) == close(plain(epochs, 8))
    alone("skipping.py", tmp_path / "alone", str(other), f"--epochs={epochs}", mode="consistent")
    assert other.read_text() == out.read_text()


def test_clipping_reaches_workers_that_skipped_all_of_their_parts(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    arguments = ("--pause=0.002", "--clip=0.05")
    done = train("skipping.py", tmp_path / "run", str(out), *arguments, wishes=CHANGES, mode="consistent")
    assert done.ended.outcome == "finished", done.ended
    epochs = int(numbers(out)[0])
    alone("skipping.py", tmp_path / "alone", str(other), f"--epochs={epochs}", "--clip=0.05", mode="consistent")
    assert other.read_text() == out.read_text()


@pytest.mark.parametrize(("limit", "steps"), [(5, 5 + 3 + 5), (6, 6 + 2 + 6)])
def test_who_skipped_its_part_leaves_the_loop_with_the_others(tmp_path: Path, limit: int, steps: int) -> None:
    """The fifth batch of eight is bad for the second of two workers, the sixth for the first."""
    out = tmp_path / "out"
    done = train("skipping.py", tmp_path / "run", str(out), "--epochs=3", f"--limit={limit}", workers=2)
    assert done.ended.outcome == "finished", done.ended
    assert numbers(out)[1] == steps


def test_figures_in_the_loop_body_are_one_clear_line_when_a_worker_skips_its_part(tmp_path: Path) -> None:
    arguments = (str(tmp_path / "out"), "--epochs=2", "--figure")
    done = train("skipping.py", tmp_path / "run", *arguments, workers=2)
    assert done.ended.outcome == "failed"
    assert "a worker skipped its part of a batch (continue)" in done.ended.cause


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(run=tmp_path / "run", checkpoint_every=3600.0)


def test_a_layer_that_is_unfrozen_in_a_part_that_is_skipped_is_trained_by_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    job = et.init("consistent", virtual=4, run=tmp_path / "run", checkpoint_every=3600.0)
    model = job.model(nn.ModuleList([nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)]))
    for layer in model:
        layer.weight.data.fill_(1.0)
    model[1].requires_grad_(False)
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.tensor([[1.0], [1.0], [1.0], [1.0], [float("nan")], [1.0], [2.0], [3.0]])
    for (part,) in job.loader(TensorDataset(x), batch_size=4, shuffle=False):
        if job.step == 1:
            model[1].requires_grad_(True)
        opt.zero_grad()
        loss = sum(layer(part).mean() for layer in model)
        if not torch.isfinite(loss):
            continue
        loss.backward()
        opt.step()
    assert model[1].weight.item() == pytest.approx(1.0 - 0.1 * 2.0)


def test_gradients_without_a_step_are_still_one_clear_line(job: et.Job) -> None:
    model = job.model(nn.Linear(1, 1))
    job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    data = job.loader(TensorDataset(torch.ones(8, 1)), batch_size=2)
    turns = iter(data)
    model(next(turns)[0]).sum().backward()
    with pytest.raises(TrainError, match="the loop body ended without opt"):
        next(turns)


def test_a_loop_that_trains_on_nothing_is_one_clear_line(job: et.Job) -> None:
    model = job.model(nn.Linear(1, 1))
    job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    data = job.loader(TensorDataset(torch.ones(8, 1)), batch_size=2)
    with pytest.raises(TrainError, match="every batch was skipped"):
        list(data)
