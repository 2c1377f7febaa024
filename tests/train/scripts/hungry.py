"""Trains until memory runs out: from a step on, parts of more than some samples do not fit.

On a pretend GPU with little memory that is real; elsewhere the error is raised here.  Every real step is written down.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out", type=Path)
parser.add_argument("--fits", type=int, default=0, help="samples; 0: whatever the device says")
parser.add_argument("--after", type=int, default=10, help="the step from which on that is so")
parser.add_argument("--error", default="device", help="device, host, cuda (a text), evaluation or kernel")
parser.add_argument("--mb", type=float, default=0.0, help="memory that a sample takes")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--two", action="store_true", help="train a second model, too")
parser.add_argument("--max-batch", type=int, default=None)
options = parser.parse_args()


def run_out(samples: int) -> None:
    if options.error == "kernel":  # as far as a process can tell; the test says that it was the kernel
        os.kill(os.getpid(), signal.SIGKILL)
    if options.error == "host":
        raise RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {samples} bytes")
    raise torch.OutOfMemoryError(f"pretended: {samples} samples")


torch.manual_seed(0)
job = et.init(checkpoint_every=3600.0)
model = job.model(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).to(job.device), name="model")
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
if options.two:
    critic = job.model(nn.Linear(2, 1).to(job.device), name="critic")
    critic_opt = job.optimizer(torch.optim.SGD(critic.parameters(), lr=0.05))
generator = torch.Generator().manual_seed(1)
x = torch.randn(640, 8, generator=generator)
y = (x.sum(1) > 0).long()
if options.accumulate > 1:
    job.accumulate(options.accumulate)
data = job.loader(TensorDataset(x, y), batch_size=32, max_batch_size=options.max_batch)
notes = Path(options.out).parent / f"steps-{os.environ.get('ELASTANE_WORKER', 'alone')}.txt"


def look() -> float:
    if options.error == "evaluation" and job.epoch == 1:
        run_out(0)
    with torch.no_grad():
        return F.cross_entropy(model(x.to(job.device)), y.to(job.device)).item()


for _ in job.epochs(options.epochs):
    for inputs, labels in data:
        samples = len(inputs)
        if (
            options.fits
            and job.step >= options.after
            and samples > options.fits
            and options.error != "evaluation"
        ):
            run_out(samples)
        kept = None
        if options.mb and job.device.type != "cpu":
            kept = torch.empty(samples, int(options.mb * 2**18), device=job.device)
        loss = F.cross_entropy(model(inputs), labels) / options.accumulate
        loss.backward()
        del kept
        with notes.open("a") as file:
            file.write(f"{job.step + 1} {samples} {job.rank}\n")
        opt.step()
        opt.zero_grad()
        if options.two:
            critic(model(inputs).detach()).square().mean().backward()
            critic_opt.step()
            critic_opt.zero_grad()
    loss_there = job.evaluate(look)
if job.is_leader:
    torch.save([p.detach().cpu() for p in model.parameters()], options.out)
