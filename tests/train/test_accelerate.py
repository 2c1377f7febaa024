"""Accelerate's Accelerator as an elastic job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et
from elastane.train.accelerate import Accelerator
from elastane.train.errors import TrainError

POINTS = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
DATA = TensorDataset(POINTS, POINTS[:, :3].argmax(1))


@pytest.fixture(autouse=True)
def _tidy(monkeypatch: pytest.MonkeyPatch):
    for name in ("ELASTANE_COORDINATOR", "ELASTANE_RUN", "ELASTANE_MODE", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)
    for number, handler in kept.items():
        signal.signal(number, handler)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def accelerator_of(folder: Path, mode: str = "fixed", **settings: Any) -> Accelerator:
    return Accelerator(job=et.init(mode, run=folder / "run", virtual=4), **settings)


def fit(accelerator: Accelerator, batch: int = 8, epochs: int = 3) -> tuple[nn.Module, Any]:
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1 / (1 + step))
    loader = DataLoader(DATA, batch_size=batch, shuffle=False)
    model, opt, loader, scheduler = accelerator.prepare(model, opt, loader, scheduler)
    for _ in accelerator.job.epochs(epochs):
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(x), y))
                accelerator.clip_grad_norm_(model.parameters(), 0.1)
                opt.step()
                scheduler.step()
                opt.zero_grad()
    return model, scheduler


def plain(batch: int = 8, epochs: int = 3) -> nn.Module:
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1 / (1 + step))
    for _ in range(epochs):
        for x, y in DataLoader(DATA, batch_size=batch):
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            opt.step()
            scheduler.step()
    return model


@pytest.mark.parametrize(
    ("mode", "batch", "accumulation"), [("fixed", 8, 1), ("fixed", 4, 2), ("consistent", 8, 1)]
)
def test_training_goes_as_without_the_library(tmp_path: Path, mode: str, batch: int, accumulation: int) -> None:
    accelerator = accelerator_of(tmp_path, mode, gradient_accumulation_steps=accumulation)
    model, scheduler = fit(accelerator, batch)
    assert accelerator.job.step == scheduler.last_epoch == 21
    for one, other in zip(plain().parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("error:Seems like `optimizer.step")
def test_a_scheduler_made_before_prepare_does_not_warn(tmp_path: Path) -> None:
    fit(accelerator_of(tmp_path), epochs=1)


def test_the_shuffled_loader_is_trained_on_and_the_other_is_read_whole(tmp_path: Path) -> None:
    accelerator = accelerator_of(tmp_path)
    test, train = DataLoader(DATA, 50), DataLoader(DATA, 8, shuffle=True)
    ours = accelerator.prepare(test, train)
    assert ours[0] is test
    assert len(ours[1]) == 7
    assert len(ours[1].dataset) == 50
    guesses = torch.arange(3)
    assert accelerator.gather_for_metrics(guesses) is guesses


def test_a_training_loader_that_comes_second_is_refused(tmp_path: Path) -> None:
    accelerator = accelerator_of(tmp_path)
    accelerator.prepare(DataLoader(DATA, 50))
    with pytest.raises(TrainError, match="prepare the training loader first"):
        accelerator.prepare(DataLoader(DATA, 8, shuffle=True))


def test_the_leader_saves_and_prints(tmp_path: Path) -> None:
    accelerator = accelerator_of(tmp_path)
    model, _ = fit(accelerator, epochs=1)
    assert accelerator.is_main_process
    accelerator.log({"accuracy": 0.5, "name": "x"})
    accelerator.save_state(str(tmp_path / "state"))
    accelerator.save_model(model, str(tmp_path / "model"))
    assert {"model.safetensors", "optimizer.bin", "scheduler.bin"} <= {
        path.name for path in (tmp_path / "state").iterdir()
    }
    assert (tmp_path / "model" / "model.safetensors").exists()
    assert accelerator.on_main_process(lambda: 3)() == 3


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"mixed_precision": "fp16"}, "bf16"),
        ({"log_with": "tensorboard"}, r"accelerator\.log"),
        ({"fsdp_plugin": object()}, "fsdp_plugin"),
        ({"deepspeed_plugin": object()}, "deepspeed_plugin"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(
    tmp_path: Path, setting: dict[str, Any], word: str
) -> None:
    with pytest.raises(TrainError, match=word):
        accelerator_of(tmp_path, **setting)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda a: a.load_state("x"), "--run"),
        (lambda a: a.skip_first_batches(None, 3), "by itself"),
        (lambda a: a.clip_grad_value_(None, 1.0), "clip_grad_norm_"),
        (lambda a: a.set_trigger(), "evaluate"),
    ],
)
def test_calls_that_cannot_work_say_what_to_write(tmp_path: Path, call: Any, word: str) -> None:
    with pytest.raises(TrainError, match=word):
        call(accelerator_of(tmp_path))


def test_gathering_parts_of_a_step_is_refused(tmp_path: Path) -> None:
    accelerator = accelerator_of(tmp_path)
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model, opt, loader = accelerator.prepare(model, opt, DataLoader(DATA, 8))
    next(iter(accelerator.job.epochs(1)))
    batches = iter(loader)
    next(batches)
    with pytest.raises(TrainError, match="this worker's part only"):
        accelerator.gather(torch.ones(1))


def test_processes_of_another_launcher_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = et.init(run=tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainError, match="elastane train"):
        Accelerator(job=job)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--unfreeze",)], ids=["plain", "unfreezing"])
def test_workers_that_come_and_die_leave_the_result_of_one_worker_bit_by_bit(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    script = str(Path(__file__).parent / "accelerate_script.py")
    elastic, alone = tmp_path / "elastic", tmp_path / "alone"
    command = ["elastane", "train", "--workers", "2", "--preload", "accelerate", "--run", str(elastic)]
    found = [tmp_path / "elastic.json", tmp_path / "alone.json"]
    _run(["-m", *command, script, *flags, str(found[0])])
    one = json.loads(found[0].read_text())
    assert one["worlds"] == [2, 3, 2, 3]
    _run([script, *flags, str(found[1]), str(one["step"])], ELASTANE_RUN=str(alone))
    assert {**one, "worlds": []} == json.loads(found[1].read_text())


def _run(command: list[str], **environment: str) -> None:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run([sys.executable, *command], env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
