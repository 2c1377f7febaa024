"""Settings: sensible defaults, and mistakes named in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from elastane.errors import ElastaneError
from elastane.models.learning_rate import sqrt
from elastane.train.adapt.cabs import Cabs
from elastane.train.adapt.rules import Fixed, PolluxRule
from elastane.train.adapt.settings import AdaptationSettings
from elastane.train.errors import TrainError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch0": 0}, "batch size: must be 1 or more, not 0"),
        ({"batch0": 8, "mode": "adaptve"}, "did you mean 'adaptive'"),
        ({"batch0": 8, "max_batch": 4}, "maximum batch size: 4 is below the batch size 8"),
        ({"batch0": 8, "per_worker_min": 0}, "per-worker minimum"),
        ({"batch0": 8, "per_worker_min": 4, "per_worker_max": 2}, "per-worker maximum: 2 is below 4"),
        ({"batch0": 8, "every_s": -1.0}, "every_s"),
    ],
)
def test_a_mistake_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainError, match=message):
        AdaptationSettings(**settings)


@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_modes_that_keep_the_batch_ignore_rules_and_maximum(mode: Any) -> None:
    settings = AdaptationSettings(64, mode, max_batch=4096, rule="pollux")
    assert settings.maximum == 64
    assert settings.batch_rule() == Fixed()


def test_adaptive_jobs_default_to_pollux_within_what_is_usually_safe() -> None:
    settings = AdaptationSettings(64, "adaptive")
    assert settings.batch_rule() == PolluxRule()
    assert settings.maximum == 32 * 64


def test_rules_are_named_or_given() -> None:
    mine = Cabs(smallest=4)
    assert AdaptationSettings(64, "adaptive", rule="cabs").batch_rule() == Cabs()
    assert AdaptationSettings(64, "adaptive", rule=mine).batch_rule() is mine
    assert AdaptationSettings(64, "adaptive", rate_rule="sqrt").named_rate_rule() is sqrt
    with pytest.raises(ElastaneError, match="did you mean 'sqrt'"):
        AdaptationSettings(64, "adaptive", rate_rule="sqr").named_rate_rule()
