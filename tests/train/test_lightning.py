"""Lightning's Trainer as an elastic job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et
from elastane.train.errors import Released, TrainError
from elastane.train.lightning import ElasticStrategy

POINTS = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
DATA = TensorDataset(POINTS, POINTS[:, :3].argmax(1))


class Module(lightning.LightningModule):
    def __init__(self, stop_at: int | None = None, manual: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.automatic_optimization = not manual
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
        self.batches: list[tuple[int, int, int]] = []
        self.validated: list[int] = []
        self.norms: list[float] = []
        self.rates: list[float] = []
        self._stop_at = stop_at

    def training_step(self, batch):
        return {"loss": torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])}

    def validation_step(self, batch) -> None:
        self.log("val", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def on_validation_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.validated.append(self.trainer.global_step)

    def on_before_optimizer_step(self, optimizer) -> None:
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        self.rates.append(optimizer.param_groups[0]["lr"])
        self.norms.append(float(torch.nn.utils.get_total_norm(gradients)))

    def on_train_batch_end(self, outputs, batch, batch_idx: int) -> None:
        self.batches.append((self.trainer.current_epoch, batch_idx, self.trainer.global_step))
        if self.trainer.global_step == self._stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def fit(folder: Path, mode: str, module: Module, **settings: Any) -> tuple[et.Job, Any]:
    job = et.init(mode, run=folder / "run", virtual=4)
    given = {"max_epochs": 3, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        strategy=ElasticStrategy(job),
        default_root_dir=folder,
        enable_model_summary=False,
        **{**given, **settings},
    )
    trainer.fit(module, job.loader(DATA, 8), DataLoader(DATA, batch_size=50))
    return job, trainer


@pytest.fixture(autouse=True)
def _tidy(monkeypatch: pytest.MonkeyPatch):
    for name in ("ELASTANE_COORDINATOR", "ELASTANE_RUN", "ELASTANE_MODE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)
    for number, handler in kept.items():
        signal.signal(number, handler)


WHOLE = [(step // 7, step % 7, step + 1) for step in range(21)]


@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_a_batch_is_a_step_however_many_units_it_has(tmp_path: Path, mode: str) -> None:
    module = Module()
    job, trainer = fit(tmp_path, mode, module)
    assert module.batches == WHOLE
    assert module.validated == [7, 14, 21]
    assert len(module.norms) == job.step == 21
    assert job.epoch == 3
    assert module.rates == [0.5] * 7 + [0.25] * 7 + [0.125] * 7
    assert float(trainer.callback_metrics["val"]) < 1.0


def test_a_stopped_training_goes_on_in_the_middle_of_its_epoch_with_the_same_result(tmp_path: Path) -> None:
    whole, first, second = Module(), Module(stop_at=10), Module()
    fit(tmp_path / "whole", "consistent", whole)
    with pytest.raises(Released):
        fit(tmp_path / "parts", "consistent", first)
    assert first.batches == WHOLE[:10]
    fit(tmp_path / "parts", "consistent", second)
    assert second.batches == WHOLE[10:]
    assert second.validated == [14, 21]
    assert second.rates == whole.rates[10:]
    assert all(map(torch.equal, whole.state_dict().values(), second.state_dict().values()))


def test_who_comes_after_the_last_step_of_an_epoch_begins_the_next(tmp_path: Path) -> None:
    first, second = Module(stop_at=14), Module()
    with pytest.raises(Released):
        fit(tmp_path, "fixed", first)
    assert first.validated == [7, 14]
    fit(tmp_path, "fixed", second)
    assert second.batches == WHOLE[14:]
    assert second.validated == [21]


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    again = Module()
    fit(tmp_path, "fixed", Module())
    job, _ = fit(tmp_path, "fixed", again)
    assert again.batches == []
    assert job.step == 21


def test_the_gradient_is_clipped_after_all_units_have_been_added(tmp_path: Path) -> None:
    module = Module()
    fit(tmp_path, "consistent", module, gradient_clip_val=1e-3)
    assert module.norms == pytest.approx([1e-3] * 21, rel=1e-2)


def test_lightning_can_save_its_own_checkpoints_and_stop_at_a_number_of_steps(tmp_path: Path) -> None:
    module = Module()
    job, trainer = fit(tmp_path, "fixed", module, enable_checkpointing=True, max_epochs=-1, max_steps=10)
    assert module.batches == WHOLE[:10]
    assert job.step == 10
    assert Path(trainer.checkpoint_callback.best_model_path).exists()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"accumulate_grad_batches": 2}, "accumulate_grad_batches=2"),
        ({"limit_train_batches": 3}, "limit_train_batches=3"),
        ({"mode": "adaptive"}, "'adaptive' is not supported"),
        ({"module": Module(manual=True)}, "manual optimization"),
    ],
)
def test_what_cannot_work_is_refused_by_name(tmp_path: Path, settings: dict[str, Any], word: str) -> None:
    given = {"mode": "fixed", "module": Module(), **settings}
    with pytest.raises(TrainError, match=word):
        fit(tmp_path, **given)


def test_a_loader_of_somebody_else_is_refused(tmp_path: Path) -> None:
    job = et.init("fixed", run=tmp_path)
    trainer = lightning.Trainer(strategy=ElasticStrategy(job), logger=False, enable_checkpointing=False)
    with pytest.raises(TrainError, match=r"job\.loader"):
        trainer.fit(Module(), DataLoader(DATA), DataLoader(DATA))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--unfreeze",)], ids=["plain", "unfreezing"])
def test_workers_that_come_and_die_leave_the_result_of_one_worker_bit_by_bit(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    script = str(Path(__file__).parent / "lightning_script.py")
    elastic, alone = tmp_path / "elastic", tmp_path / "alone"
    command = ["elastane", "train", "--workers", "2", "--preload", "lightning.pytorch", "--run", str(elastic)]
    found = [tmp_path / "elastic.json", tmp_path / "alone.json"]
    _run(["-m", *command, script, *flags, str(found[0])])
    one = json.loads(found[0].read_text())
    assert one["worlds"] == [2, 3, 2, 3]
    _run([script, *flags, str(found[1]), str(one["step"])], ELASTANE_RUN=str(alone))
    other = json.loads(found[1].read_text())
    assert {**one, "worlds": []} == other


def _run(command: list[str], **environment: str) -> None:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run([sys.executable, *command], env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
