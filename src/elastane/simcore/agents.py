"""Every job's own agent measures, reports and chooses the batch, live and simulated alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from elastane.models.history.prior import Memory
from elastane.models.online import Learner, choose_batches, refit
from elastane.models.ps_learner import ServerLearner
from elastane.policies.contract import Needs
from elastane.policies.view import Ability, Info, has
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.simcore.behaviour import Pace
from elastane.simcore.job_run import Arrival, JobRun
from elastane.simcore.physics import Physics

Recall = Callable[[Arrival], Memory | None]
"""What past jobs tell of one that arrives."""


class Agents:
    """The agents of all jobs.  ``fits`` counts how often a model was fitted."""

    def __init__(self, needs: Needs, physics: Physics, seed: int, recall: Recall | None = None) -> None:
        self.fits = 0
        self._needs, self._physics = needs, physics
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        reads_speed = has(needs.info, Info.SPEED) and not needs.oracle
        self._uses_models = needs.rebatch or reads_speed
        reads_end = has(needs.info, Info.REMAINING) and not needs.oracle
        self._recall = recall if self._uses_models or reads_end else None

    def memory(self, arrival: Arrival) -> Memory | None:
        """What past jobs tell, if this policy has any use for it."""
        return self._recall(arrival) if self._recall else None

    def learner(self, arrival: Arrival, memory: Memory | None = None) -> Learner | None:
        """What will be learned of a job's speed; without the leave to adapt, at its owner's batch."""
        limits = arrival.behaviour.limits
        if limits is None:
            return None
        adapts = self._needs.rebatch and has(ABILITIES[arrival.kind], Ability.REBATCH)
        if limits.fixed is None and not adapts:
            limits = replace(limits, fixed=arrival.batch or limits.initial)
        learner = Learner(limits, memory if self._uses_models else None)
        if self._needs.profile:
            self._profile(learner, arrival)
        return learner

    def _profile(self, learner: Learner, arrival: Arrival) -> None:
        """Has the learner take in short runs that were made before the job starts."""
        for run in arrival.profile:
            learner.observe(run.gpu_type, 1, run.workers, run.per_gpu, run.gradient_s, run.step_s)
            if run.noise is not None:
                learner.observe_noise(run.noise, 0.0)
        self.fits += refit([learner])

    def server_learner(self, arrival: Arrival) -> ServerLearner | None:
        """The same for a job with parameter servers."""
        if arrival.server_training is None or not self._uses_models:
            return None
        request = arrival.request
        return ServerLearner(arrival.server_training, request.max_servers, request.max_workers)

    def measure(self, run: JobRun, pace: Pace) -> None:
        """What the job's own agent notices of a pace: times and gradient noise, with measurement error."""
        run.open_span(pace.efficiency)
        if run.server_learner is not None:
            self._measure_servers(run, run.server_learner, pace)
        learner = run.learner
        if learner is None or run.batch is None or run.grant is None or not self._uses_models:
            return
        # A job that is slowed down by a neighbour sees slower steps and cannot tell why, unless they share cores.
        unexplained = run.slowdown / run.share
        gradient_s, step_s = pace.gradient_s / unexplained, pace.step_s / unexplained
        noise = pace.noise
        if self._physics.observation_noise > 0.0:
            error = np.exp(self._rng.normal(0.0, self._physics.observation_noise, 3))
            gradient_s, noise = gradient_s * error[0], None if noise is None else noise * error[2]
            step_s = max(step_s * error[1], gradient_s)
        shape = run.grant.shape
        learner.observe(self._known_type(run), len(shape), sum(shape), run.batch.per_gpu, gradient_s, step_s)
        if noise is not None:
            learner.observe_noise(noise, run.done)

    def _known_type(self, run: JobRun) -> str:
        """The accelerator type as far as the policy distinguishes types."""
        return run.gpu_type if self._needs.types_apart else ""

    def _measure_servers(self, run: JobRun, learner: ServerLearner, pace: Pace) -> None:
        """The speed a job with parameter servers reports, with measurement error."""
        if run.grant is not None:
            sigma = self._physics.observation_noise
            error = float(np.exp(self._rng.normal(0.0, sigma))) if sigma > 0.0 else 1.0
            learner.observe(run.grant.servers, run.workers, pace.rate * run.slowdown * error)

    def at_segment_end(self, run: JobRun) -> None:
        """Report the loss, and look whether another batch would be better."""
        loss = run.arrival.behaviour.loss(run.done)
        if loss is not None:
            while run.losses and run.losses[-1][0] >= run.done:
                run.losses.pop()  # work that was lost is trained, and reported, again
            run.losses.append((run.done, loss))
        learner = run.learner
        if learner is not None and learner.limits.fixed is None:
            if learner.model() is None:
                self.fits += refit([learner])
            self.rebatch([run], self._physics.rebatch_gain)

    def rebatch(self, runs: Sequence[JobRun], min_gain: float) -> list[JobRun]:
        """Let jobs choose the batch for what they hold; those that chose another."""
        changed = []
        by_type: dict[str, list[JobRun]] = {}
        for run in runs:
            if run.learner is not None and run.grant is not None:
                by_type.setdefault(self._known_type(run), []).append(run)
        for kind, group in by_type.items():
            learners = [run.learner for run in group if run.learner]
            allocations = [(len(run.grant.shape), run.workers) for run in group if run.grant]
            chosen = choose_batches(learners, allocations, [run.batch for run in group], min_gain, kind)
            for run, batch in zip(group, chosen, strict=True):
                if batch != run.batch:
                    run.batch, run.pace = batch, None
                    changed.append(run)
        return changed

    def catch_up(self, active: Iterable[JobRun]) -> list[JobRun]:
        """Bring models up to date before a decision that reads them, many fits in one call; who changed its batch."""
        if not self._uses_models:
            return []
        runs = list(active)
        running = [run for run in runs if run.grant is not None]
        news = [run for run in running if run.learner and run.learner.stale]
        self.fits += refit([run.learner for run in news if run.learner])
        self.fits += sum(run.server_learner.refit() for run in runs if run.server_learner)
        if not self._needs.rebatch:
            return []
        # Whoever has learned something looks for a better batch at once, not only at the end of an epoch.
        return self.rebatch(running if self._physics.rounds_only else news, self._physics.rebatch_gain)
