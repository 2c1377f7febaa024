"""Trains with a loss scaler, under autocast, compiled, or two models in turn, until the test has seen enough."""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--kind", required=True)
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
options = parser.parse_args()

torch.manual_seed(0)
job = et.init(checkpoint_every=0.5)
kind, device = options.kind, job.device.type
generator = torch.Generator().manual_seed(1)
x = torch.randn(256, 16, generator=generator)
y = (x @ torch.randn(16, 4, generator=generator)).argmax(1)


def classifier() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(job.device)


def loss_of(model: nn.Module) -> float:
    with torch.no_grad():
        return F.cross_entropy(model(x.to(job.device)), y.to(job.device)).item()


model = job.model(classifier(), name="model")
forward = torch.compile(model, backend="aot_eager") if kind == "compiled" else model
opt = job.optimizer(torch.optim.Adam(model.parameters(), lr=1e-2))
if kind == "gan":
    critic = job.model(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(job.device), name="critic")
    critic_opt = job.optimizer(torch.optim.Adam(critic.parameters(), lr=1e-4))
scaler = job.scaler(torch.amp.GradScaler(device)) if kind == "fp16" else None
dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(kind)
before = loss_of(model)
data = job.loader(TensorDataset(x, y), batch_size=32, max_batch_size=128)
epoch = 0
for epoch in job.epochs(options.epochs or 100_000):
    for inputs, labels in data:
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            loss = F.cross_entropy(forward(inputs), labels)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        else:
            loss.backward()
            opt.step()
            opt.zero_grad()
        if kind == "gan":
            critic(model(inputs).detach()).square().mean().backward()
            critic_opt.step()
            critic_opt.zero_grad()
    if options.epochs is None and epoch >= 7 and job.evaluate((job.run / "enough").exists):
        break
after = loss_of(model)
if job.is_leader:
    Path(options.out).write_text(f"{before} {after} {device} {epoch + 1}")
