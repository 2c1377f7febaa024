"""Hugging Face's Trainer as an elastic job."""

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
import transformers

import elastane.train as et
from elastane.train.errors import Released, TrainError
from elastane.train.hf import ElasticTrainer

POINTS = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
ROWS = [{"x": point, "labels": point[:3].argmax()} for point in POINTS]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.body(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Watch(transformers.TrainerCallback):
    def __init__(self, stop_at: int | None) -> None:
        self.steps: list[int] = []
        self.evaluated: list[int] = []
        self._stop_at = stop_at

    def on_step_end(self, args, state, control, **_) -> None:
        self.steps.append(state.global_step)
        if state.global_step == self._stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_evaluate(self, args, state, control, **_) -> None:
        self.evaluated.append(state.global_step)


def trainer_of(
    folder: Path, mode: str, stop_at: int | None = None, **settings: Any
) -> tuple[ElasticTrainer, Watch]:
    job = et.init(mode, run=folder / "run", virtual=4)
    torch.manual_seed(0)
    watch = Watch(stop_at)
    given = {
        "num_train_epochs": 3,
        "per_device_train_batch_size": 8,
        "learning_rate": 0.05,
        "eval_strategy": "epoch",
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
    }
    args = transformers.TrainingArguments(output_dir=str(folder / "out"), **{**given, **settings})
    trainer = ElasticTrainer(Net(), args, job=job, train_dataset=ROWS, eval_dataset=ROWS[:9], callbacks=[watch])
    return trainer, watch


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch):
    for name in ("ELASTANE_COORDINATOR", "ELASTANE_RUN", "ELASTANE_MODE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("mode", "accumulation"), [("fixed", 1), ("fixed", 2), ("consistent", 1)])
def test_a_batch_is_a_step_however_many_units_it_has(tmp_path: Path, mode: str, accumulation: int) -> None:
    trainer, watch = trainer_of(tmp_path, mode, gradient_accumulation_steps=accumulation, logging_steps=1)
    result = trainer.train()
    each = 7 if accumulation == 1 else 4
    assert watch.steps == list(range(1, 3 * each + 1))
    assert watch.evaluated == [each, 2 * each, 3 * each]
    assert trainer.job.step == result.global_step == 3 * each
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert losses == sorted(losses, reverse=True)
    rates = [entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry]
    assert rates == sorted(rates, reverse=True)


def test_a_stopped_training_goes_on_in_the_middle_of_its_epoch_with_the_same_result(tmp_path: Path) -> None:
    whole, _ = trainer_of(tmp_path / "whole", "consistent")
    whole.train()
    first, seen = trainer_of(tmp_path / "parts", "consistent", stop_at=10)
    with pytest.raises(Released):
        first.train()
    assert seen.steps == list(range(1, 11))
    second, seen = trainer_of(tmp_path / "parts", "consistent")
    second.train()
    assert seen.steps == list(range(11, 22))
    assert seen.evaluated == [14, 21]
    assert all(map(torch.equal, whole.model.state_dict().values(), second.model.state_dict().values()))
    assert len([e for e in second.state.log_history if "eval_loss" in e]) == 3
    third, seen = trainer_of(tmp_path / "parts", "consistent")
    third.train()
    assert seen.steps == seen.evaluated == []
    assert third.job.step == 21


def test_adaptive_epochs_end_when_the_job_says_so(tmp_path: Path) -> None:
    trainer, watch = trainer_of(tmp_path, "adaptive")
    trainer.train()
    assert len(watch.evaluated) == 3
    assert trainer.job.epoch == 3
    assert trainer.state.epoch == 3.0


def test_the_gradient_is_clipped_after_all_units_have_been_added(tmp_path: Path) -> None:
    trainer, _ = trainer_of(
        tmp_path, "fixed", gradient_accumulation_steps=2, max_grad_norm=1e-3, logging_steps=1
    )
    trainer.train()
    norms = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    assert norms == pytest.approx([1e-3] * len(norms), rel=1e-2)


def test_measuring_the_gradient_leaves_it_alone_so_that_newcomers_can_follow(tmp_path: Path) -> None:
    trainer, _ = trainer_of(tmp_path, "fixed")
    for parameter in trainer.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    count = sum(parameter.numel() for parameter in trainer.model.parameters())
    before = [parameter.grad._version for parameter in trainer.model.parameters()]
    assert float(trainer._get_grad_norm(trainer.model)) == pytest.approx(count**0.5)
    assert [parameter.grad._version for parameter in trainer.model.parameters()] == before


def test_the_trainer_can_save_its_own_checkpoints(tmp_path: Path) -> None:
    trainer, _ = trainer_of(
        tmp_path, "fixed", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="loss"
    )
    trainer.train()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "checkpoint-14",
        "checkpoint-21",
        "checkpoint-7",
    ]
    assert (tmp_path / "out" / "checkpoint-7" / "scheduler.pt").exists()


@pytest.mark.parametrize("setting", [{"fp16": True}, {"dataloader_drop_last": True}, {"eval_on_start": True}])
def test_what_cannot_work_is_refused_by_name(tmp_path: Path, setting: dict[str, bool]) -> None:
    with pytest.raises(TrainError, match=next(iter(setting))):
        trainer_of(tmp_path, "fixed", **setting)


def test_resuming_from_a_checkpoint_of_the_trainer_is_refused(tmp_path: Path) -> None:
    trainer, _ = trainer_of(tmp_path, "fixed")
    with pytest.raises(TrainError, match="resume_from_checkpoint"):
        trainer.train(resume_from_checkpoint=True)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--unfreeze",)], ids=["plain", "unfreezing"])
def test_workers_that_come_and_die_leave_the_result_of_one_worker_bit_by_bit(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    script = str(Path(__file__).parent / "hf_script.py")
    elastic, alone = tmp_path / "elastic", tmp_path / "alone"
    preload = "transformers.models.bert.modeling_bert,transformers.trainer"
    command = ["elastane", "train", "--workers", "2", "--preload", preload, "--run", str(elastic)]
    found = [tmp_path / "elastic.json", tmp_path / "alone.json"]
    _run(["-m", *command, script, *flags, str(elastic / "out"), str(found[0])])
    one = json.loads(found[0].read_text())
    assert one["worlds"] == [2, 3, 2, 3]
    _run([script, *flags, str(alone / "out"), str(found[1]), str(one["step"])], ELASTANE_RUN=str(alone))
    other = json.loads(found[1].read_text())
    assert one["hash"] == other["hash"]
    assert one["evaluated"] == other["evaluated"] == list(range(7, one["step"] + 1, 7))
    assert one["epoch"] == other["epoch"]


def _run(command: list[str], **environment: str) -> None:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run([sys.executable, *command], env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
