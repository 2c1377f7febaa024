"""Trains a small network that inductor compiles, until RUN/enough is there; writes its epochs, loss and parameters."""

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

SAMPLES, BATCH, RATE = 192, 16, 0.02


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 8, generator=generator)
    return x, (x @ torch.randn(8, 3, generator=generator)).argmax(1)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def main() -> None:
    x, y = data()
    job = et.init()
    model = job.model(torch.compile(network()))
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=RATE))
    batches = job.loader(TensorDataset(x, y), batch_size=BATCH, shuffle=False)
    epochs = 0
    for epoch in job.epochs(100_000):
        for inputs, labels in batches:
            opt.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            opt.step()
            time.sleep(0.005)
        epochs = epoch + 1
        if job.evaluate((job.run / "enough").exists):
            break
    if job.is_leader:
        with torch.no_grad():
            loss = float(F.cross_entropy(model(x), y))
        values = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()
        Path(sys.argv[1]).write_text(" ".join(map(str, [epochs, loss, *values])))


if __name__ == "__main__":
    main()
