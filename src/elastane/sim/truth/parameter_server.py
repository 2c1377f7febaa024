"""Jobs with parameter servers whose truth is Optimus's own arithmetic, with placement and loss.

The step time is that of the paper (``models.parameter_server`` has the formula and its symbols), except that the
part of the transfer term which is spent on the wire follows the layout the job really stands on:

    θ_t · w/p   becomes   θ_t · ( wire · T(layout) + (1 − wire) · w/p ),

θ_t the transfer coefficient (θ1 async, θ2 sync), T the transfer time of ``models.placement.Layout`` for unit model
and bandwidth.  With every server far from every worker and w ≥ p, T = w/p: the paper's formula.  A policy's fit
over (p, w) alone is therefore close, never exact, and placement matters.

Reference: Peng et al., Optimus, EuroSys 2018, sections 3.1, 3.2 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elastane.cluster import Batch, Grant
from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits
from elastane.models.parameter_server import Updates
from elastane.models.placement import Layout
from elastane.models.speed import FloatArray, IntArray
from elastane.models.stopping import StopRule
from elastane.sim.truth.even_transfer import even_transfer
from elastane.sim.truth.true_speed import TrueSpeed
from elastane.simcore.behaviour import Pace


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A kind of job.  ``theta`` as in the speed model, ``beta`` the loss curve l(k) = 1/(β0·k + β1) + β2 in epochs.

    ``wire`` is the part of the transfer term that is network, the rest being the servers' own updates.
    """

    name: str
    updates: Updates
    theta: tuple[float, ...]
    batch: float
    steps_per_epoch: float
    beta: tuple[float, float, float]
    delta: float = 0.02
    wire: float = 0.8

    def __post_init__(self) -> None:
        if len(self.theta) != self.updates.least_pairs:
            raise ElastaneError(
                f"{self.name}: {self.updates.value} needs {self.updates.least_pairs} coefficients"
            )

    def rate(self, servers: FloatArray, workers: FloatArray, transfer: FloatArray) -> FloatArray:
        """Returns the steps per second of all workers together; ``transfer`` is T of the layout."""
        p, w, t = servers, workers, self.theta
        moved = self.wire * transfer + (1.0 - self.wire) * w / p
        if self.updates is Updates.ASYNC:
            return w / (t[0] + t[1] * moved + t[2] * w + t[3] * p)
        return 1.0 / (t[0] * self.batch / w + t[1] + t[2] * moved + t[3] * w + t[4] * p)

    @property
    def stop(self) -> StopRule:
        """The loss rule by which the owner of such a job ends it."""
        return StopRule(self.steps_per_epoch, self.delta)


@dataclass(frozen=True)
class ServerJob:
    """One job of a kind.  ``epochs`` None: it ends by its stop rule, or after ``most_epochs`` if that never holds.

    ``loss_noise`` is the relative standard deviation of the loss an epoch reports, drawn from ``seed`` once.
    """

    kind: ServerKind
    epochs: int | None = None
    most_epochs: int = 200
    loss_noise: float = 0.0
    seed: int = 0

    @property
    def app(self) -> str:
        """The name of the kind of parameter-server job."""
        return self.kind.name

    @property
    def limits(self) -> BatchLimits | None:
        """The batch is the owner's."""
        return None

    @property
    def stop(self) -> StopRule:
        """The loss rule by which its owner ends it."""
        return self.kind.stop

    @cached_property
    def losses(self) -> FloatArray:
        """The loss reported at the end of epochs 1, 2, …"""
        rate, first, floor = self.kind.beta
        k = np.arange(1, (self.epochs or self.most_epochs) + 1)
        noise = self.loss_noise * np.random.default_rng(self.seed).normal(size=len(k))
        return (1.0 / (rate * k + first) + floor) * (1.0 + noise)

    @cached_property
    def last_epoch(self) -> int:
        """Epochs the job really trains: as declared, or until its loss has changed by less than δ long enough."""
        rule, losses = self.kind.stop, self.losses
        if self.epochs is not None:
            return self.epochs
        calm = np.abs(np.diff(losses)) < rule.delta * np.maximum.accumulate(losses)[1:]
        for end in range(rule.patience, len(losses)):
            if calm[end - rule.patience : end].all():
                return end + 1
        return len(losses)

    @property
    def total_work(self) -> float:
        """The whole work, in steps."""
        return self.last_epoch * self.kind.steps_per_epoch

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:  # noqa: ARG002
        """Returns the rate until the end of the epoch, so that every epoch reports its loss."""
        epoch = int(done / self.kind.steps_per_epoch + 1e-9)
        rate = self.rate_on(layout_of(grant))
        return Pace(rate, (epoch + 1) * self.kind.steps_per_epoch, step_s=1.0 / rate)

    def rate_on(self, layout: Layout) -> float:
        """Returns the steps per second with the tasks in this layout."""
        p, w = float(sum(layout.servers)), float(sum(layout.workers))
        return float(self.kind.rate(np.array(p), np.array(w), np.array(layout.transfer_s(1.0))))

    def loss(self, done: float) -> float | None:
        """Returns the loss that the last finished epoch reported; None before the first."""
        epoch = int(done / self.kind.steps_per_epoch + 1e-9)
        return float(self.losses[min(epoch, len(self.losses)) - 1]) if epoch else None

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, TrueServerSpeed]:  # noqa: ARG002
        """Returns the true remaining steps and the true speed of even layouts, for oracle policies."""
        left = Estimate(self.total_work - done, source=Provenance.ORACLE)
        return left, TrueServerSpeed(self.kind)


@dataclass(frozen=True)
class TrueServerSpeed(TrueSpeed):
    """The true speed where tasks stand evenly, for oracle policies."""

    kind: ServerKind

    @property
    def max_useful(self) -> int:
        """The most workers that can be given work: no more than a synchronous step has samples."""
        return max(int(self.kind.batch), 1) if self.kind.updates is Updates.SYNC else 1 << 20

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:  # noqa: ARG002
        """Returns steps per second with one server per worker."""
        return self.server_rates(nodes, workers, workers)

    def server_rates(self, nodes: IntArray, servers: IntArray, workers: IntArray) -> FloatArray:
        """Returns steps per second with tasks spread evenly over the nodes; 0 without servers or workers."""
        p, w = np.maximum(servers, 1), np.maximum(workers, 1)
        found = self.kind.rate(p * 1.0, w * 1.0, even_transfer(np.maximum(nodes, 1), p, w))
        out: FloatArray = np.where((servers > 0) & (workers > 0), found, 0.0)
        return out

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:  # noqa: ARG002
        """The batch is the owner's."""
        return None


def layout_of(grant: Grant) -> Layout:
    """Returns the layout of a grant's tasks over its nodes.

    A grant without servers comes from a policy that does not know of them: each worker then serves a share of the
    parameters itself, as frameworks do when no separate server is started.
    """
    workers = tuple(part.workers for part in grant.slices)
    servers = tuple(part.servers for part in grant.slices) if grant.servers else workers
    return Layout(servers, workers)
