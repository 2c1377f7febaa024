"""Replay of measured profiles: interpolation, epochs, noise, and clear errors for damaged directories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elastane.cluster import Batch, Grant
from elastane.errors import ElastaneError
from elastane.models.goodput import BatchLimits
from elastane.sim.truth.measured import MeasuredApp
from elastane.sim.truth.measured_job import MeasuredJob


@pytest.fixture
def app(profiles: Path) -> MeasuredApp:
    return MeasuredApp(profiles / "toy")


def limits(app: MeasuredApp, fixed: int | None = None) -> BatchLimits:
    return BatchLimits(app.initial, app.maximum, app.per_gpu_min, app.per_gpu_max, fixed=fixed)


def test_known_placements_interpolate_in_the_local_batch(app: MeasuredApp) -> None:
    step, sync = app.times_s((1, 2), 12)
    assert sync == pytest.approx(0.043)
    assert step == pytest.approx(0.05 + 0.002 * 12 + 0.043)


def test_gradients_that_were_scaled_for_half_precision_are_no_damage(profiles: Path) -> None:
    for table in (profiles / "toy").glob("validation-*.csv"):
        head, *rows = table.read_text().splitlines()
        scaled = [",".join([*row.split(",")[:3], "5.7e13", "7.4e15"]) for row in rows]
        table.write_text("\n".join([head, *scaled]) + "\n")
    assert MeasuredApp(profiles / "toy").initial == 32


def test_rotations_of_a_ring_are_the_same_placement(app: MeasuredApp) -> None:
    assert app.times_s((2, 1), 16) == app.times_s((1, 2), 16)


def test_unknown_placements_are_answered_from_the_surface(app: MeasuredApp) -> None:
    step, sync = app.times_s((4, 4, 4, 4, 4, 4), 32)
    assert 0.0 < sync < step
    assert np.isfinite(app.times_s((4,) * 40, 64)).all()  # outside everything measured


def test_epochs_end_where_the_slowest_batch_stood(app: MeasuredApp) -> None:
    assert app.boundaries[0] == pytest.approx(100 * 32)
    assert app.epoch_of(0.0) == 0
    assert app.epoch_of(app.boundaries[0]) == 1
    assert app.epoch_of(app.boundaries[-1] * 2) == app.epochs - 1


def test_noise_solved_from_progress_recovers_the_noise_that_made_it(app: MeasuredApp) -> None:
    assert np.median(app.solved_noise) == pytest.approx(500.0, rel=0.1)
    assert app.recorded_noise(100, 3) == pytest.approx(500.0)


def test_a_job_paces_through_its_epochs_to_the_end(app: MeasuredApp) -> None:
    job = MeasuredJob(app, limits(app))
    done, epochs = 0.0, 0
    grant = Grant.of([("n0", 2)])
    while done < job.total_work:
        pace = job.pace(grant, "t4", Batch(32, 0), done)
        assert pace.rate > 0
        assert pace.until_work > done
        done, epochs = pace.until_work, epochs + 1
    assert epochs == app.epochs


@pytest.mark.parametrize("recorded", [True, False])
def test_the_oracle_knows_the_time_left(app: MeasuredApp, recorded: bool) -> None:
    job = MeasuredJob(app, limits(app, fixed=64), recorded)
    left, speed = job.oracle(0.0, limits(app, fixed=64))
    rates = speed.rates(np.array([1, 1, 1]), np.array([0, 1, 2]))
    assert rates[0] == 0.0
    assert rates[2] > rates[1] > 0
    pace = job.pace(Grant.of([("n0", 2)]), "t4", Batch(32, 0), 0.0)
    assert rates[2] == pytest.approx(pace.rate)
    assert left.mean > 0


def test_the_adaptive_oracle_chooses_the_best_measured_batch(app: MeasuredApp) -> None:
    _, speed = MeasuredJob(app, limits(app)).oracle(0.0, limits(app))
    best = speed.best_batch(1, 4)
    assert best is not None
    assert speed.rates(np.array([1]), np.array([4]))[0] > 0


def test_damaged_directories_are_named(profiles: Path) -> None:
    path = profiles / "toy" / "placements.csv"
    text = path.read_text()
    path.write_text(text.replace("0.02", "oops", 1))
    with pytest.raises(ElastaneError, match=r"placements\.csv, line \d+: \w+ is '.*oops.*', not a number"):
        MeasuredApp(profiles / "toy")
    path.write_text(text.replace("sync_time", "sink_time", 1))
    with pytest.raises(ElastaneError, match="column 'sync_time' is missing"):
        MeasuredApp(profiles / "toy")
    path.unlink()
    with pytest.raises(ElastaneError, match="no such file"):
        MeasuredApp(profiles / "toy")


def test_losses_are_reported_per_epoch_if_at_all_and_end_with_the_work(app: MeasuredApp) -> None:
    job = MeasuredJob(app, limits(app), loss_seed=1)
    seen = [(done, loss) for done in app.boundaries if (loss := job.loss(done)) is not None]
    assert len(seen) == app.epochs
    assert job.loss(0.5 * app.boundaries[0]) is None
    assert MeasuredJob(app, limits(app)).loss(app.boundaries[-1]) is None
    end = job.stop.expected_end(seen[:-1])
    assert end is not None
    assert end.mean == pytest.approx(job.total_work, rel=0.1)
