"""Probes this machine's card or processor: times a few layers of usual sizes on it.

A probe does not teach a model anything new about shapes; it says by how much this very card, with its clocks, driver
and libraries, is slower or faster than predicted, per kind of operator.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from elastane.codec import decoded, encoded
from elastane.errors import ElastaneError
from elastane.predict.calibration.calibrate import Progress, prepare
from elastane.predict.calibration.measuring_process import in_child
from elastane.predict.calibration.timing import Bench, MeasuredStep, clock
from elastane.predict.costs.contract import Timing
from elastane.predict.devices import Device, find
from elastane.predict.job import TrainingJob
from elastane.predict.operators import Kind

LAYERS = 20
PASSES = 3


def this_card() -> Device | None:
    """Returns the catalog's row of this machine's accelerator; None if there is none."""
    return find(torch.cuda.get_device_name()) if torch.cuda.is_available() else None


def probe(device: Device, layers: int = LAYERS, progress: Progress = lambda _done, _text: None) -> list[Timing]:
    """Times the operators of so many layers, labelled as timings of ``device``."""
    found: list[Timing] = []
    prepare()
    jobs = list(islice(_layers(large=device.accelerator), layers))
    for place, (job, batch) in enumerate(jobs):
        progress(place / len(jobs), f"layer {place + 1} of {len(jobs)}")
        step = _on_card(job, batch) if device.accelerator else _here(job, batch)
        found += [
            Timing(operator, device, seconds)
            for operator, seconds in zip(step.operators, step.seconds, strict=True)
            if operator.kind is not Kind.UNKNOWN
        ]
    return found


def _here(job: TrainingJob, batch: int) -> MeasuredStep:
    def work() -> object:
        bench = Bench(job, batch, clock())
        bench.measure(PASSES)
        return encoded(bench.result())

    return decoded(MeasuredStep, in_child(work))


def _on_card(job: TrainingJob, batch: int) -> MeasuredStep:
    """Times operators one by one on the card; its state outlives a process, so no child process is needed."""

    def ticks() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    def moved(size: int) -> object:
        return tree_map(lambda each: each.cuda() if isinstance(each, Tensor) else each, job.batch_fn(size))

    if not torch.cuda.is_available():
        raise ElastaneError("there is no accelerator on this machine to probe")
    bench = Bench(replace(job, model=job.model.cuda(), batch_fn=moved), batch, ticks)
    bench.measure(PASSES)
    return bench.result()


def _layers(large: bool) -> Iterator[tuple[TrainingJob, int]]:
    """Yields convolutions and fully connected layers in turn, each with what usually follows it, without end."""
    batch, times = (32, 4) if large else (8, 1)
    while True:
        for c_in, c_out, kernel, size in (
            (64, 64, 3, 14 * times),
            (128, 128, 3, 7 * times),
            (64, 256, 1, 14 * times),
            (32, 64, 5, 12 * times),
            (256, 128, 1, 7 * times),
            (16, 32, 3, 28 * times),
            (128, 256, 3, 7 * times),
            (3, 32, 7, 32 * times),
        ):
            yield _convolution(c_in, c_out, kernel, size), batch
            yield _dense(8 * times * c_in, 8 * times * c_out), batch * 2 * times
        times, batch = 2 * times, batch // 2 or 1


def _convolution(c_in: int, c_out: int, kernel: int, size: int) -> TrainingJob:
    layer = nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2, bias=False)
    return TrainingJob(
        nn.Sequential(layer, nn.BatchNorm2d(c_out), nn.ReLU()),
        lambda n: torch.randn(n, c_in, size, size, requires_grad=True),
        _loss,
        lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    )


def _dense(inner: int, out: int) -> TrainingJob:
    return TrainingJob(
        nn.Sequential(nn.Linear(inner, out), nn.GELU(), nn.LayerNorm(out)),
        lambda n: torch.randn(n, inner, requires_grad=True),
        _loss,
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    )


def _loss(model: nn.Module, data: Tensor) -> Tensor:
    return model(data).square().mean()  # type: ignore[no-any-return]
