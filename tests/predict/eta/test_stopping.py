"""Where a run will stop: what the curve says, what the budget says, and which of them is believed."""

from __future__ import annotations

import pytest

from elastane.errors import ElastaneError
from elastane.models.convergence import Verdict
from elastane.predict.eta import EarlyStop, Goal
from elastane.predict.eta.stopping import Belief, forecast_stop
from predict.eta.driving import Run, descent


def smooth(epochs: int) -> list[float]:
    return [0.2 + 1.0 / (1.0 + k / 5.0) for k in range(1, epochs + 1)]


def test_a_clear_curve_is_believed_even_if_the_budget_is_far_too_long() -> None:
    curve = smooth(60)
    found = forecast_stop(EarlyStop(target=curve[-1]), curve[:30], 400)
    assert found.verdict is Verdict.TRUSTED
    assert found.ends.middle == pytest.approx(60.0, rel=0.25)
    assert found.ends.covers(60.0)


def test_a_target_that_is_out_of_reach_leaves_the_budget() -> None:
    found = forecast_stop(EarlyStop(target=0.01), smooth(50), 100)
    assert found.ends.middle >= 90.0
    assert found.ends.high == 100.0
    assert found.verdict is not Verdict.TRUSTED


def test_more_is_better_where_the_rule_says_so() -> None:
    curve = smooth(60)
    falling = forecast_stop(EarlyStop(target=curve[-1]), curve[:30], 400).ends
    rising = forecast_stop(
        EarlyStop(target=-curve[-1], rising=True), [-value for value in curve[:30]], 400
    ).ends
    assert rising.middle == pytest.approx(falling.middle, rel=0.1)


def test_patience_runs_out_soon_on_a_curve_that_does_not_improve() -> None:
    values = [*smooth(20), *(0.5 + 0.01 * k for k in range(6))]
    found = forecast_stop(EarlyStop(patience=8), values, 100)
    assert found.ends.low >= 28.0
    assert found.ends.middle <= 40.0


def test_patience_does_not_run_out_while_it_improves() -> None:
    ends = forecast_stop(EarlyStop(patience=5), smooth(20), 60).ends
    assert ends.middle == ends.high == 60.0


def test_few_values_leave_it_to_the_budget() -> None:
    found = forecast_stop(EarlyStop(target=0.1), [1.0, 0.9], 50)
    assert found.verdict is Verdict.TOO_SHORT
    assert 2.0 < found.ends.low < found.ends.middle <= found.ends.high == 50.0


def test_values_that_are_missing_do_not_shift_the_end() -> None:
    curve = smooth(60)
    holes = [float("nan") if k in (3, 9) else value for k, value in enumerate(curve[:30])]
    rule = EarlyStop(target=curve[-1])
    assert forecast_stop(rule, holes, 100).ends.middle == pytest.approx(60.0, rel=0.15)


def test_a_curve_may_be_left_out_altogether() -> None:
    curve, rule = descent(1), EarlyStop(target=descent(1)[60])
    one, other = (forecast_stop(rule, curve[:n], 80, Belief(doubt=1.0)).ends for n in (40, 40))
    assert one == other
    assert one != forecast_stop(rule, curve[:40], 80).ends


def test_the_same_curve_gives_the_same_answer() -> None:
    rule = EarlyStop(target=0.3)
    assert forecast_stop(rule, descent(2)[:40], 80) == forecast_stop(rule, descent(2)[:40], 80)


def test_before_the_first_validation_the_end_may_come_at_any_time_within_the_budget() -> None:
    run = Run(Goal(100.0, stop=EarlyStop(target=0.1)))
    run.steps(10, 1.0)
    assert run.left.low == 0.0
    assert run.left.middle == pytest.approx(90.0)


@pytest.mark.parametrize("wrong", [{}, {"target": float("nan")}, {"patience": 0}])
def test_a_rule_that_cannot_end_anything_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ElastaneError):
        EarlyStop(**wrong)  # type: ignore[arg-type]
