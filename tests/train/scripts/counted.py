"""Twenty steps per epoch, by a counter of the script's own, in which a worker that comes meanwhile begins at 0.

The first epoch is longer: it waits for that worker.  ``apart`` is what comes behind each loop: ``evaluate``, a further
``loop``, or the ``end``.  Ranks that are named as well leave every loop after five steps.
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et

BATCH, EACH = 4, 20
behind, early = sys.argv[1], [int(rank) for rank in sys.argv[2:]]

job = et.init()
model = job.model(nn.Linear(1, 1))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.0))
data = job.loader(TensorDataset(torch.zeros(400_000, 1)), batch_size=BATCH)
several = False
for _ in job.epochs(1 if behind == "end" else 3):
    for i, (x,) in enumerate(data):
        several = several or job.world > 1
        if (i >= EACH and several) or (i >= 5 and job.rank in early):
            break
        model(x).mean().backward()
        opt.step()
        time.sleep(0.01)
    if behind == "evaluate":
        job.evaluate(list)
job.print(f"trained {job.step} steps")
