"""Trains three layers on digits: short steps, so that workers synchronise often."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

import elastane.train as et
from elastane.demo.scripts import digits, options
from elastane.demo.scripts.score import write as write_score


def main() -> None:
    """Trains the network elastically and prints its test accuracy after every epoch."""
    said, data = options.parse(), digits.load()
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    job = et.init(said.mode)
    model = job.model(net)
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    loader = job.loader(data.train, batch_size=said.batch)
    for epoch in job.epochs(said.epochs):
        for x, y in loader:
            opt.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            opt.step()
            job.report(loss=loss)
        score = job.evaluate(lambda: {"accuracy": data.accuracy(model)})
        job.print(f"epoch {epoch}: accuracy {score['accuracy']:.4f}")
        if job.is_leader:
            write_score(epoch, score["accuracy"])


if __name__ == "__main__":
    main()
