"""Trains a network of several buckets in one of several ways; writes what came of it, and counts buckets sent ahead."""

import argparse
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.reduce.mean import MeanReducer

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--use", default="plain")
parser.add_argument("--per-worker", type=int, default=None)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument(
    "--dies", default="", help="WORKER:BUCKETS, dies in a backward pass when it has sent so many"
)
parser.add_argument("--behind", action="store_true", help="send nothing ahead")
options = parser.parse_args()
victim, _, so_many = options.dies.partition(":")

sent = 0
real_send = MeanReducer._send_ahead


def send(reducer: MeanReducer, *words: Any) -> None:
    global sent
    real_send(reducer, *words)
    sent += 1
    if victim and os.environ.get("ELASTANE_WORKER") == victim and sent == int(so_many):
        os.kill(os.getpid(), signal.SIGKILL)


MeanReducer._send_ahead = send  # type: ignore[method-assign]
if options.behind:
    MeanReducer.steady = False  # type: ignore[assignment, method-assign]
torch.manual_seed(0)
job = et.init(checkpoint_every=3600.0)
model = job.model(
    nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512)).to(
        job.device
    )
)
spare = nn.Linear(64, 4).to(job.device)
opt = job.optimizer(torch.optim.SGD([*model.parameters()], lr=0.05, momentum=0.9))
generator = torch.Generator().manual_seed(1)
x = torch.randn(256, 64, generator=generator)
y = (x @ torch.randn(64, 4, generator=generator)).argmax(1)
data = job.loader(TensorDataset(x, y), batch_size=32, max_per_worker=options.per_worker)
epoch = 0
for epoch in job.epochs(options.epochs or 100_000):
    for inputs, labels in data:
        loss = F.cross_entropy(model(inputs), labels)
        if options.use == "leaving" and epoch % 2 and data.steps == 5:
            loss.backward()
            break
        loss.backward()
        if options.use == "meeting" and data.steps == 3:
            assert job.evaluate(lambda: 4.0) == 4.0
        if options.use == "twice" and epoch >= 2:
            (model(inputs).square().mean() / 10).backward()
        if options.use == "clamping" and epoch >= 2:
            for p in model.parameters():
                p.grad.data.clamp_(-1e-3, 1e-3)
        opt.step()
        opt.zero_grad()
        time.sleep(options.pause)
    if options.epochs is None and job.evaluate((job.run / "enough").exists):
        break

numbers = torch.cat([p.detach().reshape(-1).cpu() for p in model.parameters()])
facts = [epoch + 1, sent, *numbers[::5000].tolist()]
folder = Path(options.out).parent
(folder / f"{Path(options.out).name}.{job.rank}.bits").write_text(
    hashlib.sha256(numbers.numpy().tobytes()).hexdigest()
)
if job.is_leader:
    Path(options.out).write_text(" ".join(map(str, facts)))
