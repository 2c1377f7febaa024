"""Trains data-parallel with plain PyTorch, as one would start it with torchrun; nothing in it is made for Elastane.

It keeps its own checkpoint in the folder it runs in, and goes on from there with any number of workers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, required=True)
parser.add_argument("--batch", type=int, default=128, help="of all workers together")
parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
options = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

digits = load_digits()
images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16.0, torch.tensor(digits.target)
train = TensorDataset(images[:1500], labels[:1500])

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(train, seed=0)
data = DataLoader(train, batch_size=max(1, options.batch // world), sampler=sampler)

first = 0
if options.checkpoint.exists():
    saved = torch.load(options.checkpoint, weights_only=True)
    net.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["epoch"] + 1
dist.barrier()  # no rank may write the file before all have read it

for epoch in range(first, options.epochs):
    sampler.set_epoch(epoch)
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    if rank == 0:
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        fresh = options.checkpoint.with_suffix(".new")
        torch.save(state, fresh)
        fresh.replace(options.checkpoint)  # whenever it is stopped, there is a whole checkpoint
        with torch.no_grad():
            accuracy = float((net(images[1500:]).argmax(1) == labels[1500:]).float().mean())
        print(f"epoch {epoch}: accuracy {accuracy:.4f}", flush=True)
        told = Path("score.new")
        told.write_text(json.dumps({"epoch": epoch, "accuracy": accuracy}))
        told.replace("score.json")

dist.destroy_process_group()
