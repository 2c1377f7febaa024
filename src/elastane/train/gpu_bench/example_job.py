"""The job that ``elastane bench-gpu`` trains: it writes how fast it was and a hash of every bit it ended with."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.gpu_bench.models import BATCH, MODELS, samples


def main() -> None:
    """Trains for a number of steps or seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="mlp", choices=MODELS)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    torch.manual_seed(0)
    job = et.init(checkpoint_every=60.0)
    model = job.model(MODELS[options.model]().to(job.device))
    optimizer = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
    data = job.loader(TensorDataset(*samples(20 * BATCH)), batch_size=BATCH)
    began = time.monotonic()
    seen = 0

    def enough() -> bool:
        if options.steps:
            return job.step >= int(options.steps)
        return time.monotonic() - began > float(options.seconds)

    for _ in job.epochs(1_000_000):
        for inputs, labels in data:
            functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            seen += BATCH
        if job.evaluate(enough):
            break
    rate = seen / (time.monotonic() - began)
    if job.is_leader:
        facts = {"samples_per_s": rate, "hash": _hash(model), "step": job.step}
        options.out.write_text(json.dumps(facts), encoding="utf-8")


def _hash(model: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for _, tensor in sorted(model.state_dict().items()):
        digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
