"""The job that ``elastane bench-gpu`` trains: it writes how fast it was and a hash of every bit it ended with.

Where it is told to, one of two workers kills itself, and the leader asks for one worker when there are two again: what
happens waits for what has happened, so it does not matter how fast a machine is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.gpu_bench.models import BATCH, MODELS, samples
from elastane.train.transport_choice import TransportKind

_KILL_STEP = 5


def main() -> None:
    """Trains for a number of steps or seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="mlp", choices=MODELS)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument(
        "--kill", choices=[kind.value for kind in TransportKind], help="once, connected by this"
    )
    parser.add_argument("--shrink", action="store_true", help="to one worker after the kill, and then end")
    options = parser.parse_args()
    torch.manual_seed(0)
    job = et.init(checkpoint_every=60.0)
    model = job.model(MODELS[options.model]().to(job.device))
    optimizer = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
    data = job.loader(TensorDataset(*samples(20 * BATCH)), batch_size=BATCH)
    story = _Story(job, options.out.parent, options.kill, options.shrink)
    began = time.monotonic()
    seen = 0

    def enough() -> bool:
        if options.steps:
            return job.step >= int(options.steps)
        return story.over or time.monotonic() - began > float(options.seconds)

    for _ in job.epochs(1_000_000):
        for inputs, labels in data:
            functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            seen += BATCH
            story.look()
        if job.evaluate(enough):
            break
    rate = seen / (time.monotonic() - began)
    if job.is_leader:
        facts = {"samples_per_s": rate, "hash": _hash(model), "step": job.step}
        options.out.write_text(json.dumps(facts), encoding="utf-8")


class _Story:
    """What happens to the job; files in ``folder`` say how far it has come, since workers come and go."""

    def __init__(self, job: et.Job, folder: Path, kill: str | None, shrink: bool) -> None:
        self._job, self._kill, self._shrink = job, kill, shrink
        self._killed, self._recovered, self._asked = (
            folder / name for name in ("killed", "recovered", "asked-for-one")
        )

    @property
    def over(self) -> bool:
        """Whether everything has happened."""
        return self._asked.exists() and self._job.world == 1

    def look(self) -> None:
        """Behind each step: is it time?"""
        job = self._job
        if self._kill is None or job.step < _KILL_STEP:
            return
        if job.world < 2:
            if self._killed.exists():
                self._recovered.touch()
        elif not self._killed.exists():
            transport = job._session.membership.transport
            if job.rank == 1 and transport is not None and transport.kind.value == self._kill:
                self._killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        elif self._shrink and job.is_leader and self._recovered.exists() and not self._asked.exists():
            self._asked.touch()
            subprocess.Popen([sys.executable, "-m", "elastane", "train", "resize", str(job.run), "1"])  # noqa: S603


def _hash(model: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for _, tensor in sorted(model.state_dict().items()):
        digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
