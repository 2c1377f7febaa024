"""Trains a small network where the job says, and writes a hash of every bit of the result."""

import argparse
import hashlib
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--opt", default="sgd")
parser.add_argument("--norm", action="store_true", help="with BatchNorm, whose kernels differ between devices")
options = parser.parse_args()

torch.manual_seed(0)
job = et.init(checkpoint_every=0.5)
network = nn.Sequential(
    nn.Linear(64, 32),
    nn.BatchNorm1d(32) if options.norm else nn.Identity(),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(32, 4),
).to(job.device)
model = job.model(network)
optimizer = (
    torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if options.opt == "sgd"
    else torch.optim.AdamW(model.parameters(), lr=1e-3)
)
opt = job.optimizer(optimizer, max_grad_norm=1.0)
generator = torch.Generator().manual_seed(1)
x = torch.randn(400, 64, generator=generator)
y = (x @ torch.randn(64, 4, generator=generator)).argmax(1)
data = job.loader(TensorDataset(x, y), batch_size=32)
epoch = 0
for epoch in job.epochs(options.epochs or 100_000):  # noqa: B007
    for inputs, labels in data:
        assert inputs.device == job.device
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        opt.step()
        job.report(loss=loss)
    if options.epochs is None and job.evaluate((job.run / "enough").exists):
        break

digest = hashlib.sha256()
for _, tensor in sorted(model.state_dict().items()):
    digest.update(tensor.cpu().numpy().tobytes())
for state in opt.state.values():
    for _, value in sorted(state.items()):
        digest.update(torch.as_tensor(value).cpu().numpy().tobytes())
if job.is_leader:
    Path(options.out).write_text(f"{digest.hexdigest()} {epoch + 1} {job.device.type}")
