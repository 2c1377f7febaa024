"""Ten steps per epoch by a counter of the script's own, until two workers have made five epochs together.

The first epoch is longer: it waits for the second worker, whose counter begins at 0 in its middle.  The weight is the
sum of the samples that were trained on, so it tells whether each was used once.
"""

import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et

BATCH, EACH, TOGETHER = 4, 10, 5

job = et.init()
net = nn.Linear(1, 1, bias=False).double()
nn.init.zeros_(net.weight)
model = job.model(net)
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
data = job.loader(TensorDataset(torch.arange(400_000).double()[:, None]), batch_size=BATCH, shuffle=False)
several = False
together = 0


def enough() -> bool:
    """On the leader, which is there from the first step to the last."""
    global together
    together += job.world > 1
    return together >= TOGETHER


for epoch in job.epochs(100_000):
    for i, (x,) in enumerate(data):
        several = several or job.world > 1
        if i >= EACH and several:
            break
        model(x).mean().backward()
        opt.step()
        opt.zero_grad()
        time.sleep(0.01)
    job.print(f"epoch {epoch} ended at {job.step} with {job.world}")
    if epoch and job.evaluate(enough):
        break
used = job.step * BATCH
job.print(f"missing {used * (used - 1) / 2 / BATCH + net.weight.item():g}")
