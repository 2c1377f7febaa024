"""The digits that ship with scikit-learn, with Lightning's Trainer and workers that come and go.

pip install lightning
elastane train --workers 2 --resize 3:10s --chaos kill:20s --preload lightning examples/lightning_digits.py
python examples/lightning_digits.py
"""

import argparse

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et
from elastane.train.lightning import ElasticStrategy

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--mode", default=None, help="fixed or consistent")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16.0
labels = torch.tensor(digits.target)
train, test = TensorDataset(images[:1500], labels[:1500]), TensorDataset(images[1500:], labels[1500:])


class Digits(lightning.LightningModule):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        self.log("accuracy", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            job.print(f"epoch {job.epoch}: accuracy {self.trainer.callback_metrics['accuracy']:.3f}")

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs),
        }


job = et.init(options.mode, seed=options.seed)
torch.manual_seed(options.seed)
trainer = lightning.Trainer(
    max_epochs=options.epochs,
    strategy=ElasticStrategy(job),
    gradient_clip_val=5.0,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Digits(), job.loader(train, options.batch), DataLoader(test, batch_size=len(test)))
