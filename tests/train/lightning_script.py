"""A Lightning training run by test_lightning.py: [--unfreeze] FOUND [STEPS]."""

from __future__ import annotations

import sys

import lightning
import torch
from phases import UNFROZEN, Phases
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et
from elastane.train.lightning import ElasticStrategy

frozen = "--unfreeze" in sys.argv
found, *rest = (word for word in sys.argv[1:] if word != "--unfreeze")
points = torch.randn(58, 4, generator=torch.Generator().manual_seed(1))
data = TensorDataset(points, points[:, :3].argmax(1))
job = et.init("consistent", virtual=4)
phases = Phases(job, int(rest[0]) if rest else None)


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 3)
        )
        self.net[0].requires_grad_(not frozen)

    def on_train_batch_start(self, batch, batch_idx) -> None:
        if job.step == UNFROZEN:
            self.net[0].requires_grad_(True)

    def training_step(self, batch, batch_idx):
        assert batch_idx == job.step % 4
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_batch_end(self, outputs, batch, batch_idx) -> None:
        assert self.trainer.global_step == job.step
        assert self.trainer.current_epoch == job.epoch == (job.step - 1) // 4
        self.trainer.should_stop = phases.stepped()


# Its count of validations without progress shows whether a newcomer took over what callbacks know.
patient = lightning.pytorch.callbacks.EarlyStopping("val", min_delta=100.0, patience=10**9)
module = Module()
trainer = lightning.Trainer(
    max_epochs=-1,
    strategy=ElasticStrategy(job),
    callbacks=[patient],
    gradient_clip_val=0.5,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(module, job.loader(data, 16), DataLoader(data, batch_size=58))
phases.write(found, module, waited=patient.wait_count, rate=trainer.optimizers[0].param_groups[0]["lr"])
