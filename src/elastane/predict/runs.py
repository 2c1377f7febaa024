"""Predicts a whole run from its step: epoch and total time, memory and cost, on one or several workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elastane.errors import ElastaneError
from elastane.models.throughput import ThroughputParams, times_s
from elastane.predict.collectives import Sharing
from elastane.predict.interval import Interval
from elastane.predict.operators import Phase
from elastane.predict.parallelism import Parallel, hybrid, model_parallel
from elastane.predict.prices import Offer, best_offer
from elastane.predict.steps import StepEstimate

MEMORY_SPARE = 0.92
"""Fraction of a device's memory that a job can have: the rest is the runtime's own."""
SCALING_SD = 0.1
"""Log standard deviation of the exchange model, per doubling of workers."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The length of a training.  The batch is the captured one, per worker; the global batch grows with workers.

    ``validation_samples`` are passed forward after every ``validate_every`` epochs; ``loader_s`` is the measured
    time to get one batch, None if unknown; it is hidden as far as the step lasts.
    """

    samples: int
    epochs: float
    validation_samples: int = 0
    validate_every: float = 1.0
    loader_s: float | None = None
    checkpoint_s: float = 0.0
    checkpoint_every: float = 1.0
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.samples < 1 or not self.epochs > 0 or self.validation_samples < 0:
            raise ElastaneError("samples must be 1 or more, epochs above 0, validation samples not below 0")
        if min(self.validate_every, self.checkpoint_every) <= 0:
            raise ElastaneError("validation and checkpoints come after a number of epochs above 0")

    def steps_per_epoch(self, batch: int, workers: int) -> int:
        """Returns the steps over all samples; the last may be a partial one."""
        whole = self.samples / (batch * workers)
        return max(math.floor(whole) if self.drop_last else math.ceil(whole), 1)


@dataclass(frozen=True, eq=False)
class RunEstimate:
    """The prediction for one device and number of workers."""

    step: StepEstimate
    plan: RunPlan
    sharing: Sharing
    step_s: Interval
    epoch_s: Interval
    total_s: Interval
    fits_memory: bool
    memory_gb: float
    offer: Offer | None
    cost_usd: Interval | None
    basis: str
    notes: tuple[str, ...]

    def cost(self, offers: Sequence[Offer]) -> Interval | None:
        """Returns the dollars by the best of these offers; None if none is for this device."""
        device = self.step.machine.device
        offer = best_offer(offers, (device.name, *device.aliases), self.sharing.workers)
        return offer.cost(self.total_s, self.sharing.workers) if offer else None

    def within(self, budget_usd: float | None, deadline_s: float | None) -> bool:
        """Tells whether the booking values keep to budget and deadline; a run without a price keeps to no budget."""
        if budget_usd is not None and (self.cost_usd is None or self.cost_usd.booking > budget_usd):
            return False
        return deadline_s is None or self.total_s.booking <= deadline_s


def estimate_run(
    step: StepEstimate,
    plan: RunPlan,
    sharing: Sharing | None = None,
    offers: Sequence[Offer] = (),
    fitted: ThroughputParams[float] | None = None,
    parallel: Parallel = Parallel.DATA,
) -> RunEstimate:
    """Predicts a run; a fitted throughput model of the job replaces the α-β model of the exchange."""
    sharing = sharing or Sharing()
    step_s, basis = _step(step, plan, sharing, fitted, parallel)
    epoch_s = _epoch(step, plan, sharing.workers if parallel.shares_samples else 1, step_s)
    total_s = epoch_s.scaled(plan.epochs)
    device = step.machine.device
    offer = best_offer(offers, (device.name, *device.aliases), sharing.workers)
    cut = 1 if parallel.shares_samples else sharing.workers
    memory_gb = step.capture.memory.total / cut / 1e9
    return RunEstimate(
        step=step,
        plan=plan,
        sharing=sharing,
        step_s=step_s,
        epoch_s=epoch_s,
        total_s=total_s,
        fits_memory=memory_gb <= MEMORY_SPARE * device.memory_gb,
        memory_gb=memory_gb,
        offer=offer,
        cost_usd=offer.cost(total_s, sharing.workers) if offer else None,
        basis=basis,
        notes=_notes(step, plan),
    )


def _step(
    step: StepEstimate,
    plan: RunPlan,
    sharing: Sharing,
    fitted: ThroughputParams[float] | None,
    parallel: Parallel,
) -> tuple[Interval, str]:
    basis = step.machine.about
    alone = step.seconds
    if sharing.workers > 1 and parallel is not Parallel.DATA:
        alone = (model_parallel if parallel is Parallel.MODEL else hybrid)(step, sharing)
        basis += f", {parallel.value} parallel"
    elif sharing.workers > 1:
        extra = _exchange_s(step, sharing, fitted)
        doubt = 1.0 + SCALING_SD * math.log2(sharing.workers)
        alone = (alone + Interval.exactly(extra)).widened(doubt)
        basis += ", exchange fitted to this job" if fitted else f", {sharing.scheme.value} all-reduce"
    if plan.loader_s is not None and plan.loader_s > alone.middle:
        slower = plan.loader_s
        alone = Interval(max(alone.low, slower), slower, max(alone.high, slower))
        basis += ", data loading is the bottleneck"
    return alone, basis


def _exchange_s(step: StepEstimate, sharing: Sharing, fitted: ThroughputParams[float] | None) -> float:
    if fitted is not None:
        alone_s, together_s = times_s(fitted, sharing.nodes, sharing.workers, step.capture.batch)
        return max(together_s / alone_s - 1.0, 0.0) * step.seconds.middle
    size = step.capture.memory.gradients * (0.5 if step.precision in ("bf16", "fp16") else 1.0)
    return sharing.exposed_s(size, step.machine.device.link, step.phase_s(Phase.BACKWARD))


def _epoch(step: StepEstimate, plan: RunPlan, replicas: int, step_s: Interval) -> Interval:
    """Returns the time of one epoch: training steps, and its part of validations and checkpoints."""
    training = step_s.scaled(plan.steps_per_epoch(step.capture.batch, replicas))
    forward = step.phase_s(Phase.FORWARD) / step.seconds.middle
    batches = math.ceil(plan.validation_samples / (step.capture.batch * replicas))
    validation = step.seconds.scaled(forward * batches / plan.validate_every)
    return training + validation + Interval.exactly(plan.checkpoint_s / plan.checkpoint_every)


def _notes(step: StepEstimate, plan: RunPlan) -> tuple[str, ...]:
    notes = list(step.capture.notes)
    if step.capture.unknown:
        names = ", ".join(name for name, _ in step.capture.unknown)
        notes.append(f"not modelled: {step.capture.unknown_share:.1%} of bytes ({names})")
    if plan.loader_s is None:
        notes.append("data loading was not measured")
    return tuple(notes)


def sorted_runs(runs: Sequence[RunEstimate], by_cost: bool) -> list[RunEstimate]:
    """Sorts runs, best first; those that do not fit into memory come last, those without a price after others."""

    def key(run: RunEstimate) -> tuple[bool, float, float]:
        cost = run.cost_usd.middle if run.cost_usd else math.inf
        return (not run.fits_memory, cost if by_cost else run.total_s.middle, run.total_s.middle)

    return sorted(runs, key=key)
