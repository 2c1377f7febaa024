"""Measures the gradient noise scale of a running job at a small, known cost.

The training loop calls, for one optimizer step::

    if statistics.begin(step):
        for each unit of this worker:  statistics.unit(raw gradient of the unit)
        sums = statistics.local()      # added up over all workers, together with the gradients
        statistics.total(mean gradient of all units)
        statistics.finish(sums over all workers, units, batch)

Every worker then holds the same ``noise``, because it comes from numbers all of them share.  The formulas
are those of ``elastane.models.noise``; norms are taken in the optimizer's metric (``preconditioner``).

Deviations from AdaptDL: samples taken before the second moments are believed are dropped as soon as they
are, and none are mixed in after a reset, since the two kinds have different units.  The average forgets by
the steps that went by and not by those that were measured, but keeps at least some hundred samples.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from elastane.models.noise import MEMORY, NoiseScale
from elastane.train.adapt.average import MovingAverage
from elastane.train.adapt.pacing import Pacing
from elastane.train.adapt.preconditioner import Preconditioner
from elastane.train.device import Mark
from elastane.train.errors import TrainError
from elastane.train.reduce.gradients import GradientLayout

Scale = float | Tensor
"""The factor that a loss scaler has put into gradients; on an accelerator it is only known there."""

UNEVEN = 0.1
"""Units may differ in size by this part of the largest; beyond it their norms are not comparable."""

LEAST_MEMORY = 0.98
"""What a sample leaves of older ones, however many steps went by unmeasured."""

VARIANCE_MEMORY = 0.95
"""Of the short average of the gradient variance, as CABS wants it."""


@dataclass(frozen=True, slots=True)
class _Step:
    step: int
    batch: int
    gradient: Tensor
    norms: list[float]


class GradientStatistics:
    """Norms of one job's gradients on some of its steps, and the noise scale they add up to.

    ``variance`` is the trace of the covariance of a single sample's gradient, averaged over few steps.
    """

    def __init__(
        self,
        layout: GradientLayout,
        optimizer: torch.optim.Optimizer,
        batch0: int,
        budget: float = 0.03,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if not 0.0 < budget <= 1.0:
            raise TrainError(f"budget: measuring may cost between 0 and 1 of a step, not {budget}")
        self.noise = NoiseScale(batch0)
        self.variance = MovingAverage(VARIANCE_MEMORY)
        self._metric = Preconditioner(layout, optimizer)
        self._metric_fresh = False
        self._preconditioned = False  # whether the samples in ``noise`` are
        self._groups = len(layout.groups)
        self._pacing = Pacing(budget)
        self._clock = clock
        self._began_s: float | None = None
        self._cost_s: float | None = None
        self._step = -1
        self._sampled = -1  # the step of the last sample
        self._local = [0.0] * self._groups
        self._total: list[float] | None = None
        self._mean: Tensor | None = None
        self._mean_scale: Scale = 1.0
        self._device = layout.device
        self.local_there: Tensor | None = None
        """On an accelerator: what ``local`` is elsewhere."""
        self._pair: Sequence[list[float]] = ()
        self._spans: list[tuple[Mark, Mark]] = []
        self._single = False
        self._previous: _Step | None = None

    @property
    def stride(self) -> int:
        """Every how many steps this worker would like to measure."""
        return self._pacing.wish(self._single)

    def set_stride(self, stride: int) -> None:
        """What the leader wished; all workers must get the same number before the same step."""
        if stride < 1:
            raise TrainError(f"stride: must be 1 or more, not {stride}")
        self._pacing.set_stride(stride)

    @property
    def measuring(self) -> bool:
        """Whether the present step is measured."""
        return self._cost_s is not None

    def restart(self) -> None:
        """Members or batch have changed: gradients from before are not compared, and the pause is no step."""
        self._previous = self._began_s = None

    def begin(self, step: int, again: bool = False) -> bool:
        """A step begins: is it measured?  The answer is the same on all workers.

        ``again``: other members redo the step.  It is not measured then, since norms of lost units are lost.
        """
        now_s = self._clock()
        if self._began_s is not None and not again:
            self._pacing.took(now_s - self._began_s, self._cost_s)
        self._began_s = None if again else now_s
        measured = not again and self._pacing.due(step, self._single)
        self._cost_s = 0.0 if measured else None
        self._step = step
        self._local = [0.0] * self._groups
        self._total = self._mean = self.local_there = None
        self._pair, self._spans = (), []
        self._metric_fresh = False
        return measured

    def unit(self, vector: Tensor, loss_scale: Scale = 1.0) -> None:
        """Take in the raw gradient of one of this worker's units: of the mean loss over its samples."""
        if self._cost_s is None or self._single:
            return
        if not self._device.is_cpu:
            with self._on_device():
                norms_there = self._norms_there(vector, loss_scale)
                before = self.local_there
                self.local_there = norms_there if before is None else before + norms_there
            return
        began_s = self._clock()
        norms = self._norms(vector, float(loss_scale))
        self._local = [a + b for a, b in zip(self._local, norms, strict=True)]
        self._cost_s += self._clock() - began_s

    def local(self) -> list[float]:
        """Sum over this worker's units of |P g|², per parameter group; to be summed over all workers."""
        return list(self._local)

    # On an accelerator nothing is read while a step is under way: what ``ask`` gives travels to the host with the
    # rest of the step, and ``hear`` takes it in.

    def ask(self, vector: Tensor, loss_scale: Scale = 1.0) -> Tensor | None:
        """In the place of ``total``: rows of numbers per group for ``hear``; None if nothing is measured."""
        if self._cost_s is None:
            return None
        with self._on_device():
            rows = [self._norms_there(vector, loss_scale)]
            if self._previous is not None:
                old = self._previous.gradient
                rows.append(self._metric.products_there(old, old))
                rows.append(self._metric.products_there(vector, old) / loss_scale)
            self._mean, self._mean_scale = vector, loss_scale
            return torch.stack(rows)

    def hear(self, rows: Sequence[list[float]]) -> None:
        """What ``ask`` gave, on the host: the device has done all of this step's measuring."""
        self._total, self._pair = rows[0], rows[1:]
        assert self._cost_s is not None
        self._cost_s += sum(end.since(start) for start, end in self._spans)

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        start = self._device.mark()
        yield
        self._spans.append((start, self._device.mark()))

    def _norms_there(self, vector: Tensor, loss_scale: Scale) -> Tensor:
        self._refresh()
        return self._metric.products_there(vector, vector) / (loss_scale * loss_scale)

    def total(self, vector: Tensor, loss_scale: float = 1.0) -> list[float]:
        """|P ĝ|² per parameter group of the mean gradient; ``finish`` must follow before ``vector`` changes."""
        began_s = self._clock()
        self._total = self._norms(vector, loss_scale)
        self._mean, self._mean_scale = vector, loss_scale
        if self._cost_s is not None:
            self._cost_s += self._clock() - began_s
        return list(self._total)

    def finish(
        self, sum_local: Sequence[float], units: int, batch: int, sizes: Sequence[int] | None = None
    ) -> None:
        """Complete the sample: sums of ``local`` over all workers, units and samples in the whole step.

        ``sizes`` are the samples of each unit, where they are not known to be equal.
        """
        if self._cost_s is None:
            return
        if self._total is None or self._mean is None:
            raise RuntimeError("total() must be called before finish()")
        began_s = self._clock()
        # After steps of one unit ``unit`` has nothing to do; the first step of several only ends that.
        measured_all = not self._single
        self._single = units == 1
        alike = not sizes or min(sizes) >= (1.0 - UNEVEN) * max(sizes)
        if self._single and self._comparable():
            self._observe_single(self._total, self._mean, batch)
        else:
            self._previous = None
            if units > 1 and measured_all and alike and self._comparable():
                self._observe([value / units for value in sum_local], self._total, units, batch)
        self._mean = None
        self._cost_s += self._clock() - began_s

    def state_dict(self) -> dict[str, Any]:
        """Everything a joining or restarted worker must know to go on alike, as JSON values."""
        return {
            "noise": self.noise.to_dict(),
            "variance": self.variance.to_dict(),
            "preconditioned": self._preconditioned,
            "single": self._single,
            "sampled": self._sampled,
            "stride": self._pacing.stride,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        try:
            noise = NoiseScale.from_dict(state["noise"])
            variance = self.variance.restored(state["variance"])
            flags = bool(state["preconditioned"]), bool(state["single"])
            sampled, stride = int(state["sampled"]), int(state["stride"])
        except (KeyError, TypeError, ValueError) as error:
            raise TrainError(f"this is not a saved state of gradient statistics: {error!r}") from error
        if noise.batch0 != self.noise.batch0:
            raise TrainError(
                f"batch size: the saved statistics belong to {noise.batch0}, but now it is {self.noise.batch0}"
            )
        self.noise, self.variance = noise, variance
        self._preconditioned, self._single = flags
        self._previous, self._sampled = None, sampled
        self.set_stride(stride)

    def _refresh(self) -> None:
        if not self._metric_fresh:
            self._metric.refresh()
            self._metric_fresh = True

    def _norms(self, vector: Tensor, loss_scale: float) -> list[float]:
        self._refresh()
        square = loss_scale * loss_scale
        return [norm / square if square > 0.0 else math.nan for norm in self._metric.square_norms(vector)]

    def _comparable(self) -> bool:
        """Whether this step's norms have the units of those before; believed moments begin a new average."""
        if self._metric.active and not self._preconditioned:
            self._preconditioned = True
            self.noise = NoiseScale(self.noise.batch0)
            self.variance = MovingAverage(VARIANCE_MEMORY)
        return self._metric.active == self._preconditioned

    def _observe(self, local: list[float], total: list[float], count: int, batch: int) -> None:
        scale = batch / self.noise.batch0
        aged = self._aged(scale)
        self._accept(aged, aged.observe(local, total, count, scale))
        self._observe_variance(local, total, count, batch)

    def _observe_single(self, now: list[float], gradient: Tensor, batch: int) -> None:
        """Compare with the step before, in today's metric; keep a copy for the step after."""
        old, scale = self._previous, self._mean_scale
        if not isinstance(scale, Tensor):
            scale = scale or math.nan
        if old is not None and old.step == self._step - 1 and old.batch == batch:
            before, cross = self._pair or self._compared(gradient, old, scale)
            mean = [(a + b + 2.0 * c) / 4.0 for a, b, c in zip(now, before, cross, strict=True)]
            ratio = batch / self.noise.batch0
            aged = self._aged(2.0 * ratio)
            self._accept(aged, aged.observe_single(now, before, mean, ratio))
            local = [(a + b) / 2.0 for a, b in zip(now, before, strict=True)]
            self._observe_variance(local, mean, 2, 2 * batch)
        kept = torch.empty_like(gradient) if old is None else old.gradient
        torch.div(gradient, scale, out=kept)
        self._previous = _Step(self._step, batch, kept, now)

    def _compared(self, gradient: Tensor, old: _Step, scale: Scale) -> tuple[list[float], list[float]]:
        before = self._metric.square_norms(old.gradient) if self._metric.active else old.norms
        return before, [product / float(scale) for product in self._metric.products(gradient, old.gradient)]

    def _aged(self, scale: float) -> NoiseScale:
        """The average after the steps that went by unmeasured since the last sample."""
        elapsed = max(1, self._step - self._sampled) if self._sampled >= 0 else 1
        own = MEMORY**scale
        factor = max(own**elapsed, min(own, LEAST_MEMORY)) / own
        old = self.noise
        return replace(
            old,
            sqr=tuple(factor * value for value in old.sqr),
            var=tuple(factor * value for value in old.var),
            moments=(factor * old.moments[0], factor * old.moments[1], factor * old.moments[2]),
            weight=factor * old.weight,
            weight_sqr=factor**2 * old.weight_sqr,
        )

    def _accept(self, before: NoiseScale, after: NoiseScale) -> None:
        """Take over a new average, unless the sample was refused (an overflow): then time goes on."""
        if after is not before:
            self.noise, self._sampled = after, self._step

    def _observe_variance(self, local: list[float], total: list[float], count: int, batch: int) -> None:
        self.variance = self.variance.add((sum(local) - sum(total)) * batch / (count - 1))
