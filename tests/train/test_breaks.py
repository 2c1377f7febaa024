"""A ``break`` ends a loop over data; what was fetched and not stepped on is not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.coordinator.scripted_events import Wish
from train.running import train

DATA = TensorDataset(torch.arange(12.0).view(12, 1))


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)


def made(run: Path, mode: str = "fixed") -> tuple[et.Job, torch.nn.Module, torch.optim.Optimizer, Any]:
    job = et.init(mode, run=run, virtual=2, checkpoint_every=3600.0)
    model = job.model(torch.nn.Linear(1, 1))
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    return job, model, opt, job.loader(DATA, 2, shuffle=False)


def test_a_break_by_counter_ends_the_epoch_and_the_next_goes_on_there(tmp_path: Path) -> None:
    job, model, opt, data = made(tmp_path / "run")
    seen: list[list[int]] = []
    for _ in job.epochs(3):
        for i, (x,) in enumerate(data):
            if i >= 2:
                break
            model(x).mean().backward()
            opt.step()
            seen.append(x.flatten().int().tolist())
    assert job.step == 6
    assert seen == [[n, n + 1] for n in range(0, 12, 2)]


def test_two_loops_in_an_epoch_are_both_counted_when_they_are_broken_off(tmp_path: Path) -> None:
    job, model, opt, data = made(tmp_path / "run")
    seen = []
    for _ in job.epochs(2):
        for limit in (1, 2):
            for (x,) in data:
                if data.steps >= limit:
                    break
                model(x).mean().backward()
                opt.step()
                seen.append(int(x[0]))
            assert data.steps == 0
            assert not job.replaying
    assert seen == [0, 2, 4, 6, 8, 10]


def test_a_gradient_of_the_dropped_batch_does_not_stay(tmp_path: Path) -> None:
    job, model, opt, data = made(tmp_path / "run")
    for _ in job.epochs(1):
        for (x,) in data:
            model(x).mean().backward()
            break
        assert all(p.grad is None or not p.grad.any() for p in model.parameters())
        for (x,) in data:
            before = model.weight.item()
            model(x).mean().backward()
            opt.step()
            assert model.weight.item() == pytest.approx(before - 0.01 * float(x.mean()))
    assert job.step == 6


def test_a_break_in_the_middle_of_a_step_is_one_clear_line(tmp_path: Path) -> None:
    job, model, opt, data = made(tmp_path / "run", "consistent")
    epochs = job.epochs(2)
    next(epochs)
    for i, (x,) in enumerate(data):
        if i >= 1:
            break
        model(x).mean().backward()
        opt.step()
    with pytest.raises(et.TrainError, match=r"if data\.steps >= n: break"):
        next(iter(data))


@pytest.mark.slow
def test_a_limit_of_steps_holds_through_resizes_and_a_kill_with_each_sample_used_once(tmp_path: Path) -> None:
    found = tmp_path / "found"
    wishes = [
        Wish(5, "resize", 3, steps=True),
        Wish(0, "kill", settled=True),
        Wish(0, "kill-leader", settled=True),
        Wish(0, "resize", 1, settled=True),
    ]
    outcome = train("limited.py", tmp_path / "run", str(found), wishes=wishes)
    assert outcome.ended.outcome == "finished"
    assert outcome.lost
    assert found.read_text().split() == ["0", "1", "1"]
