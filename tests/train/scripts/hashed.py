"""Trains one of three kinds of model with one of two optimizers, and writes a hash of every bit of the result."""

import argparse
import hashlib
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--model", default="mlp")
parser.add_argument("--opt", default="sgd")
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--pause", type=float, default=0.0)
options = parser.parse_args()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x.view(-1, 4, 16)).mean(1))


def network() -> nn.Module:
    torch.manual_seed(0)
    if options.model == "cnn":
        return nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Flatten(),
            nn.Linear(8 * 36, 4),
        )
    if options.model == "transformer":
        return Attention()
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))


generator = torch.Generator().manual_seed(1)
x = torch.randn(500, 64, generator=generator)
y = (x @ torch.randn(64, 4, generator=generator)).argmax(1)

job = et.init(checkpoint_every=0.2)
model = job.model(network())
optimizer = (
    torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if options.opt == "sgd"
    else torch.optim.AdamW(model.parameters(), lr=1e-3)
)
opt = job.optimizer(optimizer, max_grad_norm=1.0)
schedule = job.scheduler(torch.optim.lr_scheduler.CosineAnnealingLR(opt, 50))
data = job.loader(TensorDataset(x, y), batch_size=32)
epoch = 0
for epoch in job.epochs(options.epochs or 100_000):  # noqa: B007
    for inputs, labels in data:
        F.cross_entropy(model(inputs), labels).backward()
        opt.step()
        schedule.step()
        time.sleep(options.pause)
    if options.epochs is None and job.evaluate((job.run / "enough").exists):
        break

digest = hashlib.sha256()
for _, tensor in sorted(model.state_dict().items()):
    digest.update(tensor.numpy().tobytes())
for state in opt.state.values():
    for _, value in sorted(state.items()):
        digest.update(torch.as_tensor(value).numpy().tobytes())
if job.is_leader:
    Path(options.out).write_text(f"{digest.hexdigest()} {epoch + 1}")
