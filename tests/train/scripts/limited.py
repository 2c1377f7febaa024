"""Ten steps per epoch, ended by a break before the step; counts each sample's uses in the parameters (counting.py)."""

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et

SAMPLES, BATCH, EACH = 640, 16, 10

job = et.init()
model = job.model(nn.Embedding(SAMPLES, 1, _weight=torch.zeros(SAMPLES, 1)))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
data = job.loader(TensorDataset(torch.arange(SAMPLES)), batch_size=BATCH)
for epoch in job.epochs(100_000):
    for (index,) in data:
        if data.steps >= EACH:
            break
        model(index).mean().backward()
        opt.step()
        time.sleep(0.01)
    enough = job.evaluate((job.run / "enough").exists)
    if (epoch + 1) % 4 == 0 and enough:  # four epochs are one pass
        break
if job.is_leader:
    uses = -model.weight.detach() * BATCH
    passes = (epoch + 1) // 4
    Path(sys.argv[1]).write_text(
        f"{job.step - EACH * (epoch + 1)} {float(uses.min()) / passes:g} {float(uses.max()) / passes:g}"
    )
