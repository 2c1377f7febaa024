"""Adaptation as a whole: when it decides, what each mode may change, what it reports and remembers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from elastane.cluster import Batch
from elastane.train.adapt.controller import Adaptation
from elastane.train.adapt.rules import BatchChoice, BatchSituation
from elastane.train.adapt.settings import AdaptationSettings
from elastane.train.errors import TrainError
from elastane.train.reduce.gradients import GradientLayout


def adaptation(kind: type[torch.optim.Optimizer] = torch.optim.SGD, **settings: Any) -> Adaptation:
    """One worker's adaptation of a job with two parameter groups."""
    groups = [[nn.Parameter(torch.zeros(2))], [nn.Parameter(torch.zeros(3))]]
    optimizer = kind([{"params": group} for group in groups], lr=0.1)  # type: ignore[call-arg]
    settings = {"batch0": 32, "mode": "adaptive", "max_batch": 1024, **settings}
    return Adaptation(AdaptationSettings(**settings), GradientLayout(groups), optimizer, clock=lambda: 0.0)


def feed(job: Adaptation, units: int = 4, steps: int = 30, spread: float = 3.0) -> None:
    """Measured steps with noise, at the current batch."""
    random = torch.Generator().manual_seed(0)
    for step in range(steps):
        job.statistics.set_stride(1)
        job.statistics.begin(step)
        gradients = [1.0 + spread * torch.randn(5, generator=random) for _ in range(units)]
        for gradient in gradients:
            job.statistics.unit(gradient)
        job.statistics.total(torch.stack(gradients).mean(0))
        job.statistics.finish(job.statistics.local(), units, job.total)


def profile(job: Adaptation, *per_worker: int, workers: int = 4) -> None:
    """Step times that make larger batches faster per sample."""
    for samples in per_worker:
        for _ in range(3):
            job.profile.add((1, workers, samples), [], 0.05 + 0.0005 * samples + 0.03, 0.03)


@dataclass
class Counting:
    """A user's own rule; remembers what it was shown."""

    answers: list[int | Batch]
    seen: list[BatchSituation]

    def choose(self, situation: BatchSituation) -> BatchChoice:
        self.seen.append(situation)
        return BatchChoice(self.answers[min(len(self.seen), len(self.answers)) - 1], f"call {len(self.seen)}")


# ---- when it decides -------------------------------------------------------------------------------------


def test_it_decides_every_ten_seconds_and_at_once_after_a_resize() -> None:
    rule = Counting([64, 128, 256, 512], [])
    job = adaptation(rule=rule)
    for now_s, workers, calls in [
        (0.0, 2, 1),
        (9.9, 2, 1),
        (10.0, 2, 2),
        (10.1, 3, 3),
        (12.0, 3, 3),
        (20.2, 3, 4),
    ]:
        job.adopt(job.propose(workers, 1, now_s), workers, 1)
        assert len(rule.seen) == calls
    assert job.reason == "call 4"


def test_a_rule_of_the_users_own_sees_the_situation_and_may_answer_in_shares() -> None:
    rule = Counting([Batch(7, 2)], [])
    job = adaptation(rule=rule)
    job.epoch = 3.5
    job.observe_loss(2.0)
    feed(job)
    assert job.propose(4, 2, 0.0, step=17) == Batch(7, 2)
    seen = rule.seen[0]
    assert (seen.workers, seen.nodes, seen.step, seen.epoch) == (4, 2, 17, 3.5)
    assert (seen.loss, seen.learning_rate) == (2.0, 0.1)
    assert seen.variance is not None
    assert seen.noise.count == 30


def test_proposals_change_nothing_until_they_are_adopted() -> None:
    job = adaptation(rule=Counting([256], []))
    before = job.batch
    proposed = job.propose(4, 1, 0.0)
    assert job.batch == before
    job.adopt(proposed, 4, 1)
    assert (job.total, job.scale) == (256, 8.0)


def test_pollux_enlarges_the_batch_of_a_noisy_job() -> None:
    job = adaptation(per_worker_max=512)
    job.adopt(job.propose(4, 1, 0.0), 4, 1)
    assert job.total == 32
    profile(job, 8, 16)
    feed(job, spread=20.0)
    chosen = job.propose(4, 1, 60.0)
    assert chosen.total(4) > 128
    assert "goodput" in job.reason


def test_the_first_step_after_a_change_is_neither_timed_nor_compared_with_the_one_before() -> None:
    job = adaptation()
    profile(job, 16)
    counted = job.profile.table[(1, 4, 16)].last_count
    feed(job, units=1, steps=2)
    job.adopt(job.batch, 1, 1)
    profile(job, 16)
    assert job.profile.table[(1, 4, 16)].last_count == counted + 2
    samples = job.statistics.noise.count
    job.statistics.begin(2)
    job.statistics.total(torch.ones(5))
    job.statistics.finish([0.0, 0.0], 1, 32)
    assert job.statistics.noise.count == samples == 1


# ---- memory ----------------------------------------------------------------------------------------------


def test_a_batch_beyond_what_has_fitted_is_to_be_tried_first() -> None:
    job = adaptation(rule=Counting([1024], []))
    chosen = job.propose(2, 1, 0.0)
    assert chosen == Batch(64, 7)
    assert job.untried(chosen)
    job.memory.proven(64)
    assert not job.untried(chosen)


def test_a_declared_limit_is_not_tried() -> None:
    job = adaptation(rule=Counting([1024], []), per_worker_max=256)
    chosen = job.propose(2, 1, 0.0)
    assert chosen == Batch(256, 1)
    assert not job.untried(chosen)


def test_after_a_lack_of_memory_it_decides_at_once_and_smaller() -> None:
    job = adaptation(rule=Counting([1024], []))
    chosen = job.propose(2, 1, 0.0)
    job.did_not_fit(chosen)
    again = job.propose(2, 1, 0.1)
    assert again.per_gpu < chosen.per_gpu
    assert again.total(2) >= 1024


def test_a_minimum_that_cannot_fit_is_an_error() -> None:
    job = adaptation(per_worker_min=20)
    job.did_not_fit(Batch(20))
    with pytest.raises(TrainError, match="per-worker minimum: 20 samples"):
        job.propose(2, 1, 0.0)


# ---- modes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fixed", "consistent"])
@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8, 40])
def test_modes_that_keep_the_batch_keep_it_exactly_and_leave_the_rate_alone(mode: str, workers: int) -> None:
    job = adaptation(mode=mode, rate_rule="linear", accumulate=False)
    job.adopt(job.propose(workers, 1, 0.0), workers, 1)
    feed(job)
    assert job.total == 32
    assert job.scale == 1.0
    assert job.step_factors() == (1.0, 1.0)
    for _ in range(3):
        with job.stepping() as factors:
            assert factors == (1.0, 1.0)
    assert job.progress == pytest.approx(3.0)


def test_a_fixed_batch_that_does_not_fit_is_accumulated() -> None:
    job = adaptation(mode="fixed", per_worker_max=10, accumulate=False)
    assert job.propose(1, 1, 0.0) == Batch(8, 3)


# ---- learning rate and progress --------------------------------------------------------------------------


def test_adascale_gives_each_group_its_gain_and_progress_the_gain_of_all() -> None:
    job = adaptation(rule=Counting([128], []))
    job.adopt(job.propose(4, 1, 0.0), 4, 1)
    feed(job)
    noise = job.agreed = job.statistics.noise
    with job.stepping() as factors:
        pass
    assert factors == noise.group_gains(4.0)
    assert 1.0 < min(factors) < max(factors) <= 4.0
    assert job.progress == noise.gain(4.0)
    assert job.rate.factor == pytest.approx(sum(factors) / 2)


def test_adam_gets_the_root_of_the_gain() -> None:
    job = adaptation(torch.optim.AdamW, rule=Counting([128], []))
    job.adopt(job.propose(4, 1, 0.0), 4, 1)
    feed(job)
    job.agreed = job.statistics.noise
    roots = [gain**0.5 for gain in job.agreed.group_gains(4.0)]
    assert job.step_factors() == pytest.approx(roots)


def test_a_short_last_batch_counts_for_what_it_is() -> None:
    job = adaptation(rule=Counting([128], []), rate_rule="linear")
    job.adopt(job.propose(4, 1, 0.0), 4, 1)
    assert job.step_factors() == (4.0, 4.0)
    assert job.step_factors(samples=48) == (1.5, 1.5)


def test_a_batch_rule_may_bring_its_learning_rate_but_the_owner_has_the_last_word() -> None:
    for rule, named, factor in [("cabs", None, 1.0), ("adabatch", None, 4.0), ("cabs", "sqrt", 2.0)]:
        job = adaptation(rule=rule, rate_rule=named)
        job.adopt(Batch(32), 4, 1)
        job.epoch = 45.0
        assert job.step_factors() == (factor, factor)


@pytest.mark.parametrize(("asked", "left"), [(True, 0.0), (False, 1.0)])
def test_moments_are_reset_only_if_asked_and_only_when_the_batch_changes(asked: bool, left: float) -> None:
    job = adaptation(torch.optim.Adam, reset_moments=asked)
    optimizer = job.rate.optimizer
    for group in optimizer.param_groups:
        group["params"][0].grad = torch.ones_like(group["params"][0])
    optimizer.step()
    first = next(iter(optimizer.state.values()))
    job.adopt(Batch(16), 2, 1)
    assert float(first["step"]) == 1.0
    job.adopt(Batch(64), 2, 1)
    assert float(first["step"]) == left


# ---- reports and state -----------------------------------------------------------------------------------


def test_hints_are_json_before_and_after_anything_is_known() -> None:
    job = adaptation()
    empty = json.loads(json.dumps(job.hints(), allow_nan=False))
    assert (empty["noise"], empty["goodput"], empty["throughput"]) == (None, None, None)
    job.adopt(Batch(16), 4, 1)
    profile(job, 16, 32)
    feed(job)
    full = json.loads(json.dumps(job.hints(), allow_nan=False))
    assert full["noise"] == pytest.approx(job.statistics.noise.phi)
    assert full["gain"] == pytest.approx(full["efficiency"] * 2.0)
    assert full["goodput"] > 0.0
    assert len(full["throughput"]) == 7
    assert full["batch"] == {"total": 64, "per_worker": 16, "extra": 0}
    assert full["limits"]["per_worker_max"] == 64
    assert full["max_profiled"] == 4


def test_noise_without_bound_is_reported_as_unknown_not_as_infinity() -> None:
    job = adaptation()
    job.statistics.begin(0)
    job.statistics.unit(torch.ones(5))
    job.statistics.unit(-torch.ones(5))
    job.statistics.total(torch.zeros(5))
    job.statistics.finish(job.statistics.local(), 2, 32)
    assert job.hints()["noise"] is None
    json.dumps(job.hints(), allow_nan=False)


def test_a_restarted_job_knows_all_it_knew() -> None:
    job = adaptation(rule=Counting([128], []))
    job.adopt(Batch(32), 4, 1)
    profile(job, 16, 32)
    feed(job)
    job.observe_loss(1.5)
    job.memory.proven(50)
    with job.stepping():
        pass
    again = adaptation(rule=Counting([128], []))
    again.load_state_dict(json.loads(json.dumps(job.state_dict(), allow_nan=False)))
    again.adopt(Batch(32), 4, 1)
    assert again.state_dict() == job.state_dict()
    assert again.step_factors() == job.step_factors()
    assert again.hints()["goodput"] == job.hints()["goodput"]


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(TrainError, match="not a saved state of adaptation"):
        adaptation().load_state_dict({"statistics": adaptation().statistics.state_dict()})
