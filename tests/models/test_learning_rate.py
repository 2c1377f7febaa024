"""Learning-rate rules: their formulas, their limits, and the help for a misspelt name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.models.learning_rate import RULES, Legw, StepContext, default_rule, rule_named


@pytest.mark.parametrize(
    ("name", "factors"),
    [
        ("adascale", (2.25, 4.0)),
        ("adam", (1.5, 2.0)),
        ("sqrt", (2.0, 2.0)),
        ("linear", (4.0, 4.0)),
        ("legw", (1.0, 1.0)),
    ],
)
def test_factors(name: str, factors: tuple[float, float]) -> None:
    step = StepContext(scale=4.0, gains=(2.25, 4.0), progress=200.0, epoch_steps=100.0)
    assert rule_named(name)(step) == pytest.approx(factors)


def test_legw_warms_up_in_progress_and_longer_for_a_larger_batch() -> None:
    rule = Legw(warmup_epochs=2.0)

    def factor(scale: float, progress: float) -> float:
        return rule(StepContext(scale, (1.0,), progress, epoch_steps=100.0))[0]

    assert factor(4.0, 0.0) == 0.0
    assert factor(4.0, 400.0) == pytest.approx(1.0)
    assert factor(4.0, 800.0) == factor(4.0, 9999.0) == pytest.approx(2.0)
    assert factor(1.0, 200.0) == pytest.approx(1.0)


def test_legw_without_warm_up_is_the_square_root() -> None:
    assert Legw(0.0)(StepContext(9.0, epoch_steps=10.0)) == pytest.approx((3.0,))


@given(scale=st.floats(1.0, 64.0), share=st.floats(0.0, 1.0), name=st.sampled_from(sorted(RULES)))
def test_no_rule_exceeds_the_batch_ratio(scale: float, share: float, name: str) -> None:
    gain = 1.0 + share * (scale - 1.0)
    step = StepContext(scale, (gain, 1.0), progress=1e9, epoch_steps=10.0)
    factors = RULES[name](step)
    assert len(factors) == 2
    assert all(1.0 <= factor <= scale * (1 + 1e-12) for factor in factors)


@pytest.mark.parametrize("name", sorted(RULES))
def test_at_the_owners_batch_the_rate_is_the_owners(name: str) -> None:
    step = StepContext(1.0, (1.0,), progress=1e9, epoch_steps=10.0)
    assert RULES[name](step) == (1.0,)


@pytest.mark.parametrize(("wrong", "nearest"), [("adascal", "adascale"), ("Linear", "linear"), ("lgw", "legw")])
def test_an_unknown_rule_is_answered_with_the_nearest(wrong: str, nearest: str) -> None:
    with pytest.raises(ElastaneError, match=f"did you mean '{nearest}'"):
        rule_named(wrong)


def test_even_a_hopeless_name_gets_a_suggestion() -> None:
    with pytest.raises(ElastaneError, match="did you mean"):
        rule_named("§§§")


def test_defaults_by_kind_of_optimizer() -> None:
    assert default_rule(adaptive_optimizer=False) is RULES["adascale"]
    assert default_rule(adaptive_optimizer=True) is RULES["adam"]
