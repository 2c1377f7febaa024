"""Times every operator of a training step in its context, and the step as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from elastane.predict.calibration.measuring_process import in_child
from elastane.predict.calibration.reference_work import Clock, Tick
from elastane.predict.capturing.recorder import Recorder
from elastane.predict.job import JobFactory, TrainingJob
from elastane.predict.operators import Operator, Phase

QUANTILE = 0.25
"""Quantile of repeated measurements that is used: interruptions only ever add time."""


def clock() -> Clock:
    """Returns a clock: the process's CPU time where one thread computes everything, else wall time.

    On a shared machine the first is far steadier, and with one thread both mean the same.
    """
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


class TimedRecorder(Recorder):  # type: ignore[no-untyped-call]
    """A recorder that also times each operator: ``seconds``, in the order of ``operators``."""

    def __init__(self, ticks: Clock) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._ticks = ticks
        self._took = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Times the call itself, without the time to record it."""

        def timed(*given: Any, **named: Any) -> Any:
            began = self._ticks()
            result = func(*given, **named)
            self._took = self._ticks() - began
            return result

        return super().__torch_dispatch__(_Timed(func, timed), types, args, kwargs)

    def note(self, func: Any, stem: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Records an operator together with its time."""
        self.seconds.append(self._took)
        super().note(func, stem, args, kwargs, result)


class _Timed:
    """A proxy of an operator that times its calls and otherwise behaves like it."""

    def __init__(self, func: Any, call: Callable[..., Any]) -> None:
        self._func = func
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._func, name)


def watching_s(ticks: Clock, calls: int = 300) -> float:
    """Measures the seconds that timing itself adds to an operator, from a tiny one with and without it."""
    tiny = torch.zeros(1)

    def plain() -> float:
        began = ticks()
        for _ in range(calls):
            tiny.add_(1.0)
        return (ticks() - began) / calls

    alone = min(plain() for _ in range(3))
    with TimedRecorder(ticks) as recorder:
        for _ in range(calls):
            tiny.add_(1.0)
    return max(float(np.median(recorder.seconds)) - alone, 0.0)


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A network's measured step: its operators with their seconds, calls in all, seconds of the whole, and the tick."""

    operators: tuple[Operator, ...]
    seconds: tuple[float, ...]
    calls: int
    whole_s: float
    tick_s: float

    def at(self, tick_s: float) -> MeasuredStep:
        """Scales all times to another tick."""
        factor = tick_s / self.tick_s
        seconds = tuple(each * factor for each in self.seconds)
        return replace(self, seconds=seconds, whole_s=self.whole_s * factor, tick_s=tick_s)


class Bench:
    """Measures one network repeatedly, with a tick before and after each measurement."""

    def __init__(self, job: TrainingJob, batch: int, ticks: Clock, modules: bool = False) -> None:
        self._job, self._ticks, self._modules = job, ticks, modules
        self._data = job.batch_fn(batch)
        trained = [each for each in job.model.parameters() if each.requires_grad]
        self._optimizer = job.optimizer_fn(trained) if job.optimizer_fn is not None else None
        self._passes: list[list[float]] = []
        self._wholes: list[float] = []
        self._tick = Tick(ticks)
        self._heard: list[float] = []
        self._last: TimedRecorder | None = None
        self._watching_s = watching_s(ticks)
        self.step()  # caches fill, optimizer state is made

    def measure(self, passes: int) -> None:
        """Measures so many passes over whole steps, then as many operator by operator."""
        for _ in range(passes):
            self._wholes.append(self._whole())
        for _ in range(passes):
            self._hear()
            self._passes.append(self._timed())
        self._hear()

    def wholes(self, passes: int) -> tuple[float, float]:
        """Measures whole steps; returns the lower quartiles of their seconds and of the ticks among them."""
        for _ in range(passes):
            self._wholes.append(self._whole())
        return float(np.quantile(self._wholes, QUANTILE)), self._tick_s

    def _whole(self) -> float:
        """Times a tick, then a step that follows another, as in training, since a tick fills the caches differently."""
        self._hear()
        self.step()
        return self.step()

    def _hear(self) -> None:
        self._heard.append(self._tick.seconds())

    @property
    def _tick_s(self) -> float:
        return float(np.quantile(self._heard, QUANTILE))

    def result(self) -> MeasuredStep:
        """Returns the measured step, with the lower quartiles of all times."""
        assert self._last is not None
        seen = np.quantile(np.array(self._passes), QUANTILE, axis=0)
        seconds = np.maximum(seen - self._watching_s, 0.2 * seen)
        whole = float(np.quantile(self._wholes, QUANTILE))
        operators = tuple(
            replace(each, module=each.module if self._modules else "", inputs=(), outputs=())
            for each in self._last.operators
        )
        return MeasuredStep(
            operators, tuple(float(each) for each in seconds), self._last.calls, whole, self._tick_s
        )

    def step(self) -> float:
        """Runs one step and returns its seconds, without timing operators."""
        began = self._ticks()
        self._job.loss_fn(self._job.model, self._data).backward()
        self._update()
        return self._ticks() - began

    def _timed(self) -> list[float]:
        recorder = TimedRecorder(self._ticks)
        with recorder.modules if self._modules else nullcontext(), recorder:
            loss = self._job.loss_fn(self._job.model, self._data)
            recorder.phase = Phase.BACKWARD
            loss.backward()
            recorder.phase = Phase.OPTIMIZER
            self._update()
        self._last = recorder
        return recorder.seconds

    def _update(self) -> None:
        if self._optimizer is not None:
            self._optimizer.step()
            self._optimizer.zero_grad()


def measure_step(make: JobFactory, batch: int, passes: int = 7) -> tuple[float, float]:
    """Measures a real training step in a fresh process; returns its seconds and those of the tick."""

    def work() -> list[float]:
        return list(Bench(make(), batch, clock()).wholes(passes))

    step_s, tick_s = in_child(work)
    return float(step_s), float(tick_s)
