"""Trains a pair, two optimizers in turn, in one of the ways scripts do; writes the parameters it ends with."""

import argparse
import os
import signal
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument(
    "--pattern", default="gan", help="gan, critic (generator every third batch), twice, ranks (wrong)"
)
parser.add_argument("--norm", action="store_true", help="BatchNorm, dropout and noise drawn in the body")
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--piece", type=int, default=None, help="what a worker can hold at once")
parser.add_argument("--sum", action="store_true", help="losses are sums over samples")
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--die", type=int, default=-1, help="one worker, between the two optimizers of this step")
parser.add_argument("--pause", type=float, default=0.0)
options = parser.parse_args()

generator = torch.Generator().manual_seed(1)
x = torch.randn(140, 4, generator=generator) * 2.0 + 1.0
z = torch.randn(140, 3, generator=generator)

job = et.init(checkpoint_every=0.2)
torch.manual_seed(0)
extra = [[nn.BatchNorm1d(8), nn.Dropout(0.2)] if options.norm else [] for _ in range(2)]
loss = "sum" if options.sum else "mean"
net_g = job.model(nn.Sequential(nn.Linear(3, 8), *extra[0], nn.Tanh(), nn.Linear(8, 4)), loss=loss, name="g")
net_d = job.model(
    nn.Sequential(nn.Linear(4, 8), *extra[1][:1], nn.Tanh(), nn.Linear(8, 1)), loss=loss, name="d"
)
rate = 0.001 if options.sum else 0.02
opt_d = job.optimizer(torch.optim.Adam(net_d.parameters(), lr=0.01))
opt_g = job.optimizer(torch.optim.SGD(net_g.parameters(), lr=rate, momentum=0.9), max_grad_norm=0.5)
schedule_d = job.scheduler(torch.optim.lr_scheduler.StepLR(opt_d, 10, 0.9))
schedule_g = job.scheduler(torch.optim.lr_scheduler.StepLR(opt_g, 10, 0.8))
data = job.loader(
    TensorDataset(x, z),
    batch_size=32 // options.accumulate,
    shuffle=False,
    max_per_worker=options.piece,
    drop_last=options.norm,  # BatchNorm cannot do with parts of one sample
)
job.accumulate(options.accumulate)


def score(samples: torch.Tensor, real: float) -> torch.Tensor:
    wanted = torch.full((len(samples), 1), real)
    found = F.binary_cross_entropy_with_logits(net_d(samples), wanted, reduction=loss)
    return found / options.accumulate


epoch, total = 0, 0.0
for epoch in job.epochs(options.epochs or 100_000):
    for real, noise in data:
        if options.norm:
            noise = torch.randn_like(noise)
        for _ in range(2 if options.pattern == "twice" else 1):
            net_d.zero_grad()
            score(real, 1.0).backward()
            fake = net_g(noise)
            score(fake.detach(), 0.0).backward()
            opt_d.step()
            schedule_d.step()
            if job.step == options.die and job.stepped and job.rank == 1 and not (job.run / "died").exists():
                (job.run / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if options.pattern == "ranks" and job.rank:
            continue
        if options.pattern != "critic" or data.steps % 3 == 2:
            opt_g.zero_grad()
            score(fake, 1.0).backward()
            opt_g.step()
            schedule_g.step()
            total = job.all_reduce(fake.detach().sum(), "sum")
        time.sleep(options.pause)
    if options.epochs is None and epoch >= 2 and job.evaluate((job.run / "enough").exists):
        break
if job.is_leader:
    tensors = [t.reshape(-1).double() for net in (net_g, net_d) for t in net.state_dict().values()]
    rates = [schedule_d.last_epoch, schedule_g.last_epoch]
    values = [epoch + 1, job.step, *rates, float(total), *torch.cat(tensors).tolist()]
    Path(options.out).write_text(" ".join(map(repr, values)))
