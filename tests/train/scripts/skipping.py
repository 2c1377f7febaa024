"""Skips parts of batches that are bad, with ``continue``; writes the parameters it ends with."""

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--figure", action="store_true", help="reduce a figure in the loop body")
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--clip", type=float, default=None, help="clip the gradient, as PyTorch does it")
parser.add_argument("--limit", type=int, default=None, help="leave the loop over data after so many steps")
parser.add_argument("--pause", type=float, default=0.0)
options = parser.parse_args()

x = torch.randn(128, 5, generator=torch.Generator().manual_seed(1))
for bad in (slice(32, 48), slice(72, 80), slice(80, 88), slice(110, 112), slice(112, 126)):
    x[bad] = (
        torch.nan
    )  # a whole batch, second half, first half, the last of eight parts, all but the last of them

job = et.init(checkpoint_every=0.2)
torch.manual_seed(0)
model = job.model(nn.Linear(5, 2))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
schedule = job.scheduler(torch.optim.lr_scheduler.StepLR(opt, 5, 0.9))
data = job.loader(TensorDataset(x), batch_size=16 // options.accumulate, shuffle=False)
job.accumulate(options.accumulate)
epoch = 0
for epoch in job.epochs(options.epochs or 100_000):
    for (inputs,) in data:
        time.sleep(options.pause)
        opt.zero_grad()
        loss = (model(inputs) - 1.0).square().mean() / options.accumulate
        if not torch.isfinite(loss):
            continue
        loss.backward()
        if options.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        if options.accumulate == 1 or job.step_due:
            opt.step()
            schedule.step()
        if options.figure:
            job.all_reduce(loss)
        if options.limit is not None and data.steps >= options.limit:
            break
    if options.epochs is None and epoch >= 2 and job.evaluate((job.run / "enough").exists):
        break
if job.is_leader:
    values = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()
    facts = [epoch + 1, job.step, schedule.last_epoch]
    Path(options.out).write_text(" ".join(map(repr, [*facts, *values])))
