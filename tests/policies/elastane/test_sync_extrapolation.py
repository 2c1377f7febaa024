"""What is believed of the network beyond the sizes a job was seen with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.elastane.sync_extrapolation import calmer, gentler
from elastane.policies.view import Facts
from helpers.pollux_views import job, view

STEEP = ThroughputParams(0.05, 0.001, 1e-8, 0.05, 0.01, 0.0, 2.0)
"""Six GPUs took 0.2 s to agree, eight 0.3 s: all of it is slope."""


def sync_s(theta: ThroughputParams[float], workers: int) -> float:
    return theta.alpha_n + theta.beta_n * (workers - 2)


def test_what_was_seen_is_kept_and_what_lies_beyond_is_no_catastrophe() -> None:
    calm = gentler(STEEP, 8)
    assert sync_s(calm, 8) == pytest.approx(sync_s(STEEP, 8))
    assert sync_s(calm, 16) == pytest.approx(1.25 * sync_s(STEEP, 8))
    assert sync_s(calm, 64) < 0.3 * sync_s(STEEP, 64)


def test_a_gentle_slope_is_believed_as_it_is() -> None:
    gentle = STEEP._replace(alpha_n=0.3, beta_n=0.004)
    assert gentler(gentle, 8) is gentle


def test_only_jobs_that_were_seen_on_several_nodes_are_believed_otherwise() -> None:
    limits = BatchLimits(64, 16384, 16, 4096)
    here, there = (GoodputModel({"": STEEP}, 1e6, limits, most) for most in (4, 8))
    jobs = [replace(job(name), facts=Facts(speed=model)) for name, model in (("here", here), ("there", there))]
    seen = view(jobs, [4, 4])
    believed = calmer(seen).jobs
    assert believed["here"].speed is here
    assert believed["there"].speed is not there
    assert believed["there"].speed is calmer(seen).jobs["there"].speed, "made once for each model"
