"""A small catalog of parameter-server jobs, and how one of them arrives.

Only what is marked *published* is from the Optimus paper (EuroSys 2018): the speed coefficients of ResNet-50 and the
loss curve of Seq2Seq.  Batches, steps per epoch and everything else are made up, to be plausible on CPU containers
with the shrunken data sets of its testbed; nothing here is a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastane.errors import ElastaneError
from elastane.models.parameter_server import PRE_RUNS, SpeedSample, Updates, pre_run_pairs
from elastane.models.placement import Layout, fewest_machines
from elastane.models.ps_learner import PRE_RUN_S, ServerTraining
from elastane.policies.view import Request
from elastane.resources import Resources
from elastane.sim.truth.parameter_server import ServerJob, ServerKind
from elastane.simcore.job_run import Arrival

_SYNC, _ASYNC = Updates.SYNC, Updates.ASYNC

KINDS = {
    kind.name: kind
    for kind in (
        # θ published, the rest made up.
        ServerKind("resnet50-sync", _SYNC, (1.02, 2.78, 4.92, 0.0, 0.02), 32, 12, (0.12, 1.0, 0.10)),
        ServerKind("resnet50-async", _ASYNC, (2.83, 3.92, 0.0, 0.11), 32, 240, (0.10, 1.0, 0.12)),
        # β published, the rest made up.
        ServerKind("seq2seq-sync", _SYNC, (0.08, 1.1, 0.9, 0.01, 0.02), 64, 60, (0.21, 1.07, 0.07), delta=0.01),
        # All made up: little to send, many small samples.
        ServerKind("rnn-async", _ASYNC, (1.6, 0.3, 0.02, 0.01), 16, 400, (0.30, 0.9, 0.05)),
        ServerKind("cnn-rand-sync", _SYNC, (0.02, 0.4, 0.1, 0.005, 0.01), 128, 150, (0.50, 1.0, 0.15)),
        # Made up: busy servers, so that from (1, 1) one more server or worker alone gains nothing, but both do.
        ServerKind("wide-sync", _SYNC, (0.03125, 0.2, 0.6, 0.0, 0.31), 32, 300, (0.25, 1.0, 0.20), wire=0.0),
    )
}
"""Kinds by name."""


@dataclass(frozen=True, slots=True)
class PreRuns:
    """Short runs before a job is scheduled, on empty machines: how many, how long, and how well they measure."""

    count: int = PRE_RUNS
    seconds: float = PRE_RUN_S
    noise: float = 0.05

    def measure(
        self, job: ServerJob, request: Request, machine: Resources, machines: int
    ) -> tuple[SpeedSample, ...]:
        """Measures the speeds of a few (p, w) pairs, as far apart as the machines allow."""
        if self.count < 1:
            return ()
        rng = np.random.default_rng([job.seed, 1])
        samples = []
        for p, w in pre_run_pairs(*_largest(request, machine, machines), self.count):
            layout = _layout(p, w, request, machine, machines)
            if layout is not None:
                error = float(np.exp(rng.normal(0.0, self.noise)))
                samples.append(SpeedSample(p, w, job.rate_on(layout) * error))
        return tuple(samples)


def server_arrival(
    name: str,
    submit_s: float,
    job: ServerJob,
    request: Request,
    machine: Resources,
    machines: int,
    pre_runs: PreRuns | None = None,
) -> Arrival:
    """Makes a job as its owner submits it: declared epochs if it has any, else a stop rule, and its pre-runs.

    Policies that fit speeds pay for the pre-runs when the job first starts, holding what it was given; what they
    measured is known from the job's arrival on.
    """
    runs = pre_runs or PreRuns()
    samples = runs.measure(job, request, machine, machines)
    return Arrival(
        name,
        submit_s,
        job,
        request,
        declared_work=job.total_work if job.epochs is not None else None,
        stop=job.kind.stop,
        server_training=ServerTraining(job.kind.updates, job.kind.batch, samples, runs.seconds),
    )


def _layout(p: int, w: int, request: Request, machine: Resources, machines: int) -> Layout | None:
    assert request.server is not None
    return fewest_machines(p, w, [machine] * machines, request.server, request.worker)


def _largest(request: Request, machine: Resources, machines: int) -> tuple[int, int]:
    """Returns the largest (p, w) that the empty machines hold, reduced always in the more numerous kind."""
    if request.server is None or request.max_servers < 1:
        raise ElastaneError(
            "a job with parameter servers must say what one server takes and how many it may have"
        )
    p, w = request.max_servers, request.max_workers
    while _layout(p, w, request, machine, machines) is None and p + w > 2:
        p, w = (p - 1, w) if p >= w else (p, w - 1)
    return p, w
