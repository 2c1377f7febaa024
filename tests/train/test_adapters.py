"""What holds for scripts holds for those of the frameworks: a declared sum, layers unfrozen while training goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et
from elastane.train.accelerate import Accelerator
from elastane.train.errors import TrainError
from elastane.train.hf import ElasticTrainer
from elastane.train.lightning import ElasticStrategy

POINTS = torch.randn(48, 4, generator=torch.Generator().manual_seed(1))
LABELS = POINTS[:, :3].argmax(1)
STEPS, UNFROZEN = 6, 3
"""Steps, each of all samples, so that their order does not matter; the body is unfrozen before step 3 (from 0)."""


@pytest.fixture(autouse=True)
def _tidy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("ELASTANE_COORDINATOR", "ELASTANE_RUN", "ELASTANE_MODE", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)
    for number, handler in kept.items():
        signal.signal(number, handler)


class Net(nn.Module):
    """Its loss is a sum or a mean; its body can be frozen."""

    def __init__(self, loss: str, frozen: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.reduction = loss
        self.body.requires_grad_(not frozen)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.head(torch.tanh(self.body(x)))
        return {"loss": F.cross_entropy(found, labels, reduction=self.reduction)}

    def before(self, step: int) -> None:
        if step == UNFROZEN:
            self.body.requires_grad_(True)

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1)


def plain(net: Net) -> Net:
    """Without any library."""
    opt = net.optimizer()
    for step in range(STEPS):
        net.before(step)
        opt.zero_grad()
        net(POINTS, LABELS)["loss"].backward()
        opt.step()
    return net


def by_hf(job: et.Job, net: Net, folder: Path, **said: Any) -> None:
    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            net.before(state.global_step)

    rows = [{"x": x, "labels": label} for x, label in zip(POINTS, LABELS, strict=True)]
    args = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=STEPS,
        per_device_train_batch_size=len(rows),
        lr_scheduler_type="constant",
        learning_rate=0.01,
        max_grad_norm=0.0,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    )

    class Trainer(ElasticTrainer):
        def create_optimizer(self, model: Any = None) -> Any:
            self.optimizer = net.optimizer()  # frozen parameters are in it, too
            return super().create_optimizer(model)

    Trainer(net, args, job=job, train_dataset=rows, callbacks=[Watch()], **said).train()


class Module(lightning.LightningModule):
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def on_train_epoch_start(self) -> None:
        self.net.before(self.current_epoch)

    def training_step(self, batch: Any) -> torch.Tensor:
        return self.net(*batch)["loss"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.net.optimizer()


def by_lightning(job: et.Job, net: Net, folder: Path, **said: Any) -> None:
    trainer = lightning.Trainer(
        max_epochs=STEPS,
        strategy=ElasticStrategy(job, **said),
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(net), job.loader(TensorDataset(POINTS, LABELS), len(POINTS)))


def by_accelerate(job: et.Job, net: Net, _folder: Path, **said: Any) -> None:
    accelerator = Accelerator(job=job, **said)
    loader = DataLoader(TensorDataset(POINTS, LABELS), batch_size=len(POINTS), shuffle=True)
    model, opt, batches = accelerator.prepare(net, net.optimizer(), loader)
    for epoch in accelerator.job.epochs(STEPS):
        net.before(epoch)
        for x, labels in batches:
            accelerator.backward(model(x, labels)["loss"])
            opt.step()
            opt.zero_grad()


adapters = pytest.mark.parametrize("adapter", [by_hf, by_lightning, by_accelerate])
Adapter = Callable[..., None]


def check_like_plain(net: Net, reference: Net) -> None:
    start = Net(net.reduction, frozen=False)
    for (name, one), other, first in zip(
        net.named_parameters(), reference.parameters(), start.parameters(), strict=True
    ):
        torch.testing.assert_close(
            one, other, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
        assert not torch.allclose(one, first, atol=1e-4), f"{name} was not trained"


@adapters
def test_a_declared_sum_trains_as_without_the_library(tmp_path: Path, adapter: Adapter) -> None:
    """Consistent mode computes four parts of each batch: their means would be a quarter of the sum."""
    job, net = et.init("consistent", virtual=4, run=tmp_path / "run"), Net("sum", frozen=False)
    adapter(job, net, tmp_path / "out", loss="sum")
    assert job.step == STEPS
    check_like_plain(net, plain(Net("sum", frozen=False)))


@adapters
def test_a_loss_is_a_mean_or_a_sum(tmp_path: Path, adapter: Adapter) -> None:
    job = et.init(run=tmp_path / "run")
    with pytest.raises(
        TrainError, match=r"^(ElasticTrainer|ElasticStrategy|Accelerator)\(loss=\.\.\.\): must be"
    ):
        adapter(job, Net("mean", frozen=False), tmp_path / "out", loss="average")


@adapters
@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_a_body_unfrozen_while_it_trains_is_trained_from_then_on(
    tmp_path: Path, adapter: Adapter, mode: str
) -> None:
    job, net = et.init(mode, virtual=4, run=tmp_path / "run"), Net("mean", frozen=True)
    adapter(job, net, tmp_path / "out")
    assert job.step == STEPS
    check_like_plain(net, plain(Net("mean", frozen=True)))
