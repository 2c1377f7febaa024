"""AdaBatch: the schedule of the paper, its learning rate, and schedules of one's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Batch
from elastane.models.goodput import BatchLimits
from elastane.models.learning_rate import StepContext
from elastane.models.noise import NoiseScale
from elastane.train.adapt.adabatch import AdaBatch
from elastane.train.adapt.rules import BatchSituation, CouplesLearningRate
from elastane.train.errors import TrainError


def situation(epoch: float, maximum: int = 4096) -> BatchSituation:
    limits = BatchLimits(128, maximum, 1, 4096)
    return BatchSituation(4, 1, Batch(32), 128, limits, NoiseScale(128), epoch=epoch)


def rate(rule: AdaBatch, epoch: float, scale: float) -> float:
    return rule.rate_rule(epoch)(StepContext(scale))[0]


@pytest.mark.parametrize(
    ("epoch", "batch"), [(0, 128), (19, 128), (20, 256), (39.9, 256), (40, 512), (60, 1024), (80, 2048)]
)
def test_the_batch_doubles_every_twenty_epochs(epoch: float, batch: int) -> None:
    # Devarakonda et al., section 4: 128 grows to 2048 within 100 epochs.
    assert AdaBatch().choose(situation(epoch)).batch == batch


@pytest.mark.parametrize("growths", range(5))
def test_the_rate_falls_by_three_quarters_where_the_fixed_batch_has_three_eighths(growths: int) -> None:
    rule = AdaBatch(decay=0.375)
    assert rate(rule, 20 * growths, 2.0**growths) == pytest.approx(0.75**growths)


@given(st.floats(0, 100), st.floats(1.0, 64.0), st.floats(0.1, 1.0))
def test_rate_over_batch_decays_as_intended_whatever_batch_is_used(
    epoch: float, scale: float, decay: float
) -> None:
    rule = AdaBatch(decay=decay)
    assert rate(rule, epoch, scale) / scale == pytest.approx(decay ** int(epoch // 20))


def test_without_a_decay_the_rate_is_in_proportion_to_the_batch() -> None:
    assert rate(AdaBatch(), 45, 4.0) == 4.0


def test_the_jobs_maximum_ends_the_growth() -> None:
    seen = situation(80, maximum=512)
    assert AdaBatch().choose(seen).shape(4, seen.limits).total(4) == 512


def test_a_schedule_of_ones_own_holds_from_each_epoch_to_the_next() -> None:
    rule = AdaBatch(schedule={5: 2, 30: 8}, decay=0.5)
    assert [rule.factor(epoch) for epoch in (0, 4.9, 5, 29, 30, 99)] == [1, 1, 2, 2, 8, 8]
    assert rate(rule, 30, 8.0) == pytest.approx(8 * 0.25)


def test_it_brings_its_own_learning_rate() -> None:
    assert isinstance(AdaBatch(), CouplesLearningRate)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"every": 0}, "every"),
        ({"growth": 0.0}, "growth"),
        ({"decay": -1.0}, "decay"),
        ({"schedule": {3: 0.0}}, "schedule"),
    ],
)
def test_senseless_settings_are_refused_by_name(settings: dict[str, object], field: str) -> None:
    with pytest.raises(TrainError, match=field):
        AdaBatch(**settings)  # type: ignore[arg-type]
