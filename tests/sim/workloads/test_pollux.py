"""Pollux's procedure: class shares, tuned and realistic sizes, streams of their own."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from elastane.errors import ElastaneError
from elastane.sim.workloads import pollux_like
from elastane.sim.workloads.fits import fits


def test_default_is_160_jobs_in_eight_hours_without_durations():
    trace = pollux_like(6)
    times = [job.submit_s for job in trace.jobs]
    assert len(trace.jobs) == 160
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] < 8 * 3600
    assert all(job.duration_s is None and job.batch for job in trace.jobs)
    assert "not the published file" in trace.notes[0]


def test_shares_of_the_applications_are_the_procedures():
    apps = Counter(job.app for job in pollux_like(1, jobs=20_000).jobs)
    expected = {
        "cifar10": 0.3915,
        "ncf": 0.3915,
        "deepspeech2": 0.076,
        "bert": 0.076,
        "yolov3": 0.046,
        "imagenet": 0.019,
    }
    for app, share in expected.items():
        assert apps[app] / 20_000 == pytest.approx(share, abs=0.012)


def test_tuned_sizes_are_of_the_published_set():
    pairs = {(job.app, job.gpus, job.batch) for job in pollux_like(2, jobs=5_000).jobs}
    assert ("imagenet", 48, 6400) in pairs
    assert {pair for pair in pairs if pair[0] == "ncf"} == {("ncf", 1, 32768)}
    assert len(pairs) == 4 + 1 + 3 + 4 + 1 + 3


def test_realistic_jobs_mostly_ask_for_one_gpu_and_the_owners_batch():
    jobs = pollux_like(2, jobs=20_000, realistic=True).jobs
    assert 0.88 < np.mean([job.gpus == 1 for job in jobs]) < 0.98  # 94.7 % in Philly's rows
    small = [job for job in jobs if job.app == "cifar10" and job.gpus == 1]
    assert {job.batch for job in small} == {128}
    assert all(job.gpus > 4 for job in jobs if job.app == "imagenet")  # 100 GPU hours within a day
    assert all(job.batch <= 12800 for job in jobs)


def test_realistic_changes_sizes_only():
    tuned, real = pollux_like(3), pollux_like(3, realistic=True)
    assert [(j.id, j.submit_s, j.app) for j in tuned.jobs] == [(j.id, j.submit_s, j.app) for j in real.jobs]


def test_arrivals_follow_phillys_hours_from_two_on():
    times = np.array([job.submit_s for job in pollux_like(4, jobs=50_000).jobs])
    share = np.bincount((times // 3600).astype(int), minlength=8) / len(times)
    weights = np.array(fits()["philly-subset"].arrivals.hour[2:10])
    assert share == pytest.approx(weights / weights.sum(), abs=0.01)


def test_seed_decides_everything_and_load_the_number():
    assert pollux_like(7) == pollux_like(7)
    assert pollux_like(7).jobs != pollux_like(8).jobs
    assert len(pollux_like(7, load=2.0).jobs) == 320


@pytest.mark.parametrize("arguments", [{"jobs": 0}, {"hours": 0}, {"load": -1.0}, {"seed": -1}])
def test_nonsense_is_refused(arguments):
    with pytest.raises(ElastaneError):
        pollux_like(**{"seed": 1, **arguments})
