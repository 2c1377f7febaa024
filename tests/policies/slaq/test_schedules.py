"""SLAQ: divisions of GPUs computed by hand (SLQ-1 to SLQ-4), and what is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from elastane.cluster import Batch, Grant, Node
from elastane.models.estimate import Provenance
from elastane.models.speed import FloatArray, IntArray
from elastane.policies.lowering import lower
from elastane.policies.options import OptionError
from elastane.policies.slaq import Slaq
from elastane.policies.view import Facts, JobState, JobView, Request, View

EVERY_SECOND = Slaq(epoch_s=1.0)
Losses = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Linear:
    """One iteration a second with each worker."""

    source: Provenance = Provenance.FITTED
    max_profiled: int = 99
    max_useful: int = 99

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        return np.asarray(workers, dtype=float)

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        return None


def reported(until: float, loss: Callable[[float], float] = lambda k: 1.0 / k) -> Losses:
    """Five losses in every iteration, from the first to this one."""
    return tuple((float(k), loss(float(k))) for k in np.arange(1.0, until + 0.1, 0.2))


def job(name: str, losses: Losses, workers: int = 0, restart_s: float = 0.0, known: bool = True) -> JobView:
    return JobView(
        name,
        0.0,
        Request(1, 1, 8),
        state=JobState.RUNNING if workers else JobState.PENDING,
        grant=Grant.of([("n0", workers)]) if workers else None,
        restart_s=restart_s,
        facts=Facts(losses=losses, speed=Linear() if known else None),
        visible=Slaq.needs.info,
    )


def divided(*jobs: JobView, gpus: int = 4, policy: Slaq = EVERY_SECOND) -> dict[str, int]:
    view = View(0.0, {job.id: job for job in jobs}, {"n0": Node("n0", gpus)}, visible=Slaq.needs.info)
    return {i: grant.workers for i, grant in sorted(lower(policy.decide(view), view).grants.items())}


def test_the_steeper_loss_gets_more() -> None:
    # SLQ-1.  l = 1/k, A at k = 2, B at k = 4; both have one worker.  One more is worth
    #   A 1/3 − 1/4 = 0.083, then 1/4 − 1/5 = 0.050;  B 1/5 − 1/6 = 0.033.
    # In all 0.30 + 0.05 = 0.35 with A 3, B 1, and 0.25 + 0.083 = 0.333 with two each.
    assert divided(job("a", reported(2.0)), job("b", reported(4.0))) == {"a": 3, "b": 1}


def test_the_unit_of_a_loss_does_not_matter() -> None:
    # SLQ-2.  With B's loss as reported, a hundred times as large, B would get 3.
    hundred = reported(4.0, lambda k: 100.0 / k)
    raised = reported(4.0, lambda k: 7.0 + 1.0 / k)
    assert divided(job("a", reported(2.0)), job("b", hundred)) == {"a": 3, "b": 1}
    assert divided(job("a", reported(2.0)), job("b", raised)) == {"a": 3, "b": 1}


def test_a_job_past_its_steep_part_makes_room() -> None:
    # SLQ-3.  A at k = 20 gains at most 1/21 − 1/22 = 0.002 by a second worker, B at k = 2 by its third 0.050.
    old, new = job("a", reported(20.0), workers=4), job("b", reported(2.0))
    assert divided(old, new) == {"a": 1, "b": 3}
    assert divided(old, new, gpus=8) == {"a": 1, "b": 7}


def test_nothing_changes_if_a_restart_takes_the_whole_epoch() -> None:
    # SLQ-4.  With free moves SLQ-1 is reached from any division; a job that is restarted gains nothing.
    for a, b in ((1, 3), (2, 2)):
        free = job("a", reported(2.0), a), job("b", reported(4.0), b)
        assert divided(*free) == {"a": 3, "b": 1}
        dear = job("a", reported(2.0), a, restart_s=1.0), job("b", reported(4.0), b, restart_s=1.0)
        assert divided(*dear) == {"a": a, "b": b}


def test_a_change_is_made_only_if_it_gains_more_than_the_restarts_cost() -> None:
    # From two each to A 3, B 1 gains 0.35 − 0.333 = 0.017 with free moves.  A restart of 0.02 s costs A
    # 1/5 − 1/4.94 = 0.0024 and B 1/5 − 1/4.98 = 0.0008; one of 0.2 s 0.027 and 0.008.
    jobs = [(job("a", reported(2.0), 2, s), job("b", reported(4.0), 2, s)) for s in (0.02, 0.2)]
    assert [divided(*each) for each in jobs] == [{"a": 3, "b": 1}, {"a": 2, "b": 2}]


def test_idle_gpus_stay_idle_if_a_restart_does_not_pay() -> None:
    assert divided(job("a", reported(20.0), workers=2, restart_s=0.9), gpus=3) == {"a": 2}
    assert divided(job("a", reported(20.0), workers=2, restart_s=0.01), gpus=3) == {"a": 3}


def test_every_job_gets_its_least_before_any_gets_more() -> None:
    flat = reported(4.0, lambda k: 1.0)
    assert divided(job("a", reported(2.0)), job("b", flat), job("c", flat)) == {"a": 2, "b": 1, "c": 1}


def test_a_job_without_enough_losses_bids_like_the_steepest() -> None:
    # B and C are new.  A, at k = 4, bids 0.05, 0.083, 0.107; so do they, and GPUs go round.
    jobs = job("a", reported(4.0)), job("b", ()), job("c", ((1.0, 9.0),))
    assert divided(*jobs, gpus=6) == {"a": 2, "b": 2, "c": 2}
    # Beside a job that has nothing to gain any more it gets all the rest of nothing: nothing is known to gain.
    assert divided(job("a", reported(4.0, lambda k: 1.0)), job("b", ()), gpus=6) == {"a": 1, "b": 1}


def test_where_no_job_reports_losses_gpus_are_divided_evenly() -> None:
    assert divided(job("a", ()), job("b", ()), job("c", ()), gpus=9) == {"a": 3, "b": 3, "c": 3}


def test_a_job_of_unknown_speed_keeps_its_least() -> None:
    assert divided(job("a", reported(4.0)), job("b", reported(2.0), known=False)) == {"a": 3, "b": 1}


@pytest.mark.parametrize("wrong", [{"epoch_s": 0.0}, {"decay": 0.0}, {"decay": 1.5}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="epoch_s is from 1"):
        Slaq(**wrong)
