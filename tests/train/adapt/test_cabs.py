"""CABS: the formula of the paper, its limits, and that it leaves the learning rate alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Batch
from elastane.models.goodput import BatchLimits
from elastane.models.learning_rate import StepContext
from elastane.models.noise import NoiseScale
from elastane.train.adapt.cabs import Cabs
from elastane.train.adapt.rules import BatchSituation, CouplesLearningRate
from elastane.train.errors import TrainError


def situation(lr: float, variance: float | None, loss: float | None) -> BatchSituation:
    limits = BatchLimits(64, 2048, 1, 1024)
    return BatchSituation(
        2, 1, Batch(50), 100, limits, NoiseScale(64), variance=variance, loss=loss, learning_rate=lr
    )


def test_batch_is_rate_times_variance_over_loss() -> None:
    assert Cabs().choose(situation(0.1, 5000.0, 2.0)).batch == 250


@given(st.floats(1e-4, 1.0), st.floats(0.0, 1e6), st.floats(1e-3, 10.0))
def test_the_batch_stays_between_sixteen_and_the_maximum(lr: float, variance: float, loss: float) -> None:
    batch = Cabs().choose(situation(lr, variance, loss)).batch
    assert isinstance(batch, int)
    assert 16 <= batch <= 2048
    wanted = lr * variance / loss
    if 16 <= wanted <= 2048:
        assert batch == pytest.approx(wanted, abs=0.5)


def test_the_batch_grows_as_the_loss_falls() -> None:
    batches = [Cabs().choose(situation(0.1, 1000.0, loss)).batch for loss in (4.0, 1.0, 0.25)]
    assert batches == [25, 100, 400]


def test_a_loss_that_is_not_above_zero_wants_the_largest_batch() -> None:
    assert Cabs().choose(situation(0.1, 1000.0, 0.0)).batch == 2048


@pytest.mark.parametrize(("variance", "loss"), [(None, 1.0), (10.0, None)])
def test_before_anything_is_measured_the_batch_stays(variance: float | None, loss: float | None) -> None:
    assert Cabs().choose(situation(0.1, variance, loss)).batch == 100


def test_the_rate_is_not_multiplied_with_the_batch() -> None:
    rule = Cabs()
    assert isinstance(rule, CouplesLearningRate)
    assert rule.rate_rule(3.0)(StepContext(8.0, (4.0, 2.0))) == (1.0, 1.0)


def test_senseless_settings_are_refused() -> None:
    with pytest.raises(TrainError, match="smallest 0"):
        Cabs(smallest=0)
