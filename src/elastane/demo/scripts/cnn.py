"""Trains a convolutional network on digits; with ``--mode adaptive`` batch and learning rate follow the workers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

import elastane.train as et
from elastane.demo.scripts import digits, options
from elastane.demo.scripts.score import write as write_score

_LARGEST_BATCH = 512


def block(channels_in: int, channels_out: int) -> list[nn.Module]:
    """Returns a convolution with batch norm, followed by pooling that halves the image."""
    conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(channels_out), nn.ReLU(), nn.MaxPool2d(2)]


def main() -> None:
    """Trains the network elastically and prints its test accuracy after every epoch."""
    said, data = options.parse(), digits.load()
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Unflatten(1, (1, 8)), *block(1, 24), *block(24, 48), nn.Flatten(), nn.Linear(48 * 4, 10)
    )
    job = et.init(said.mode)
    model = job.model(net)
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4))
    loader = job.loader(
        data.train, batch_size=said.batch, max_batch_size=_LARGEST_BATCH, max_per_worker=_LARGEST_BATCH
    )
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
