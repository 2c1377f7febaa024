"""Says what its process can see of the machine's devices, and whether it is a fork of the fork server."""

import os
import sys
from pathlib import Path

import torch

import elastane.train as et

started = "forked" if "forkserver" in Path("/proc/self/cmdline").read_text() else "cold"
print("sees", os.environ["ELASTANE_CLAIMED"], torch.accelerator.device_count(), started, flush=True)
print("on", torch.ones(2, device="fakegpu").sum().item(), file=sys.stderr)

job = et.init()
if sys.argv[1:] == ["train"]:
    model = job.model(torch.nn.Linear(1, 1).to(job.device))
    optimizer = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in job.loader(torch.utils.data.TensorDataset(torch.ones(8, 1)), batch_size=4):
        model(batch[0]).mean().backward()
        optimizer.step()
