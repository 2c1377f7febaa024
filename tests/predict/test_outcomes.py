"""What runs took moves later predictions: κ is fitted again from the local history."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane import predict
from elastane.errors import ElastaneError
from elastane.predict.eta import ETA, Goal, Plan
from elastane.predict.interval import Interval, Unknown
from elastane.predict.outcomes import LATEST, Outcome, Predicted, kappa, load_outcomes, remember
from elastane.predict.profile import history_path
from predict.models import mlp_job


def ran(ratio: float, device: str = "t4", at_s: float = 100.0, run: str = "") -> Outcome:
    return Outcome(device, 0.1, 0.1 * ratio, at_s, run)


def test_kappa_is_drawn_to_one_by_few_runs_and_believes_many() -> None:
    assert kappa((), "t4") == (1.0, 0)
    few, many = kappa([ran(2.0)], "t4")[0], kappa([ran(2.0)] * LATEST, "t4")[0]
    assert 1.0 < few < 1.5 < many < 2.0


def test_one_odd_run_among_many_hardly_counts() -> None:
    assert kappa([ran(1.1), ran(1.1), ran(50.0)], "t4")[0] < 1.1


def test_only_the_latest_runs_of_the_device_since_its_calibration_count() -> None:
    other = [ran(3.0, "v100"), ran(3.0, at_s=1.0)]
    assert kappa(other, "t4", since_s=50.0) == (1.0, 0)
    changed = [*([ran(3.0)] * 50), *([ran(1.0)] * LATEST)]
    assert kappa(changed, "t4") == (1.0, LATEST)


def test_a_history_survives_broken_lines_and_counts_a_run_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history.jsonl"
    assert load_outcomes(path) == ()
    for each in (ran(2.0, run="a"), ran(1.5), ran(1.2, run="a")):
        remember(path, each)
    with path.open("a") as file:
        file.write(
            'nonsense\n{"device": "t4"}\n{"device": "t4", "predicted_s": 0.0, "measured_s": 1, "at_s": 1}\n'
        )
        file.write('{"device": "t4", "predic')
    assert load_outcomes(path) == (ran(1.5), ran(1.2, run="a"))


def trained(eta: ETA, steps: int, seconds: float) -> None:
    for step in range(1, steps + 1):
        eta.update("train", step, step * seconds, (step + 1) * seconds)


def test_25_after_fifty_steps_the_measured_rate_is_adopted_and_the_error_kept(tmp_path: Path) -> None:
    said = Predicted("local", Interval(0.8, 1.0, 1.2), kappa=1.25)
    history = tmp_path / "history.jsonl"
    eta = ETA(Goal(1000.0), predicted=said, history=history)
    before = eta.remaining()
    assert isinstance(before, Interval)
    assert (before.low, before.middle, before.high) == (800.0, 1000.0, 1200.0)
    assert not eta.engine.adopted
    trained(eta, 49, 2.0)
    assert load_outcomes(history) == ()
    trained_on = ETA(Goal(1000.0), predicted=said, history=history)
    trained(trained_on, 200, 2.0)
    left = trained_on.remaining()
    assert isinstance(left, Interval)
    assert left.middle == pytest.approx(1600.0)
    assert trained_on.engine.adopted
    (outcome,) = load_outcomes(history)
    # Without the κ that was in the prediction, or it would be counted twice.
    assert (outcome.device, outcome.predicted_s, outcome.measured_s) == ("local", 0.8, pytest.approx(2.0))


def test_25_slow_first_steps_do_not_replace_the_prediction() -> None:
    eta = ETA(Goal(1000.0), predicted=Predicted("local", Interval(0.8, 1.0, 1.2)))
    trained(eta, 3, 30.0)
    left = eta.remaining()
    assert isinstance(left, Interval)
    assert left.middle == pytest.approx(997.0)


def test_25_a_prediction_for_another_batch_is_not_judged(tmp_path: Path) -> None:
    plan = Plan(samples=100_000, epochs=1, batch=10)
    eta = ETA(plan, predicted=Predicted("local", Interval(0.8, 1.0, 1.2)), history=tmp_path / "h.jsonl")
    trained(eta, 10, 1.0)
    eta.rebase(batch=20)
    assert isinstance(eta.remaining(), Unknown)
    for step in range(11, 100):
        eta.update("train", step, 9.0 * step, 9.0 * step + 9.0)
    assert load_outcomes(tmp_path / "h.jsonl") == ()


def test_25_the_next_prediction_is_as_much_longer_as_the_runs_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = predict.step(mlp_job, device="t4", batch=32)
    for _ in range(10):
        said = predict.step(mlp_job, device="t4", batch=32)
        trained(ETA(Goal(1000.0), predicted=said.predicted), 60, 1.5 * first.seconds.middle)
    after = predict.step(mlp_job, device="t4", batch=32)
    assert len(load_outcomes(history_path())) == 10
    assert after.seconds.middle == pytest.approx(1.5 ** (10 / 12) * first.seconds.middle, rel=1e-3)
    assert "past runs" in after.machine.about
    assert sum(after.by_operator().values()) == pytest.approx(after.seconds.middle)
    assert predict.step(mlp_job, device="v100").machine.kappa == 1.0


def test_25_a_step_of_several_workers_is_not_what_was_predicted() -> None:
    for plan in (Plan(1000, 1, 10, workers=2), Plan(1000, 1, 10, accumulation=4)):
        with pytest.raises(ElastaneError, match="of one worker"):
            ETA(plan, predicted=Predicted("local", Interval(0.8, 1.0, 1.2)))


def test_25_a_goal_in_tokens_is_not_measured_by_a_predicted_step(tmp_path: Path) -> None:
    eta = ETA(Goal(1e6), predicted=Predicted("local", Interval(0.8, 1.0, 1.2)), history=tmp_path / "h.jsonl")
    for step in range(1, 101):
        eta.update("train", step, 2.0 * step, 2.0 * step + 2.0, work=500.0)
        assert step > 1 or isinstance(eta.remaining(), Unknown)
    left = eta.remaining()
    assert isinstance(left, Interval)
    assert left.middle == pytest.approx((1e6 - 50_000.0) * 2.0 / 500.0)
    assert load_outcomes(tmp_path / "h.jsonl") == ()
