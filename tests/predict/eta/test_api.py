"""The ETA for loops of one's own: sessions, a state file, changes on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.predict.eta import ETA, EarlyStop, Goal, Plan
from elastane.predict.interval import Interval, Unknown

PLAN = Plan(samples=1000, epochs=20, batch=100, validate_every_epochs=1.0, stop=EarlyStop(target=0.21))


def left(eta: ETA) -> Interval:
    found = eta.remaining()
    assert isinstance(found, Interval), found
    return found


def trained(eta: ETA, first: int, last: int, step_s: float = 1.0) -> None:
    """Steps of one session, with a validation every ten."""
    now = 0.0
    for step in range(first, last + 1):
        eta.update("train", step, now, now + step_s)
        now += step_s
        if step % 10 == 0:
            eta.update("val", step, now, now + 5.0, value=0.2 + 1.0 / step)
            now += 5.0


def test_a_resumed_run_remembers_its_validations_and_not_its_speed(tmp_path: Path) -> None:
    path = tmp_path / "eta.json"
    trained(ETA(PLAN, path), 1, 60)
    again = ETA(PLAN, path)
    assert isinstance(again.remaining(), Unknown)
    trained(again, 61, 70, step_s=2.0)
    assert len(again.engine.values) == 7
    assert again.engine.stop is not None
    assert left(again).high == pytest.approx(130 * 2.0 + 13 * 5.0, rel=0.25)


def test_validations_that_were_lost_with_their_steps_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "eta.json"
    trained(ETA(PLAN, path), 1, 60)
    again = ETA(PLAN, path)
    trained(again, 41, 45)
    assert sorted(again.engine.values) == [10.0, 20.0, 30.0, 40.0]


def test_a_change_of_workers_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "eta.json"
    eta = ETA(PLAN, path)
    trained(eta, 1, 100)
    eta.rebase(workers=2)
    again = ETA(PLAN, path)
    assert again.engine.goal.total == eta.engine.goal.total == 150.0


def test_work_other_than_steps_is_counted_on_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "eta.json"
    eta = ETA(Goal(1000.0), path)
    for step in range(1, 11):
        eta.update("train", step, float(step), step + 1.0, work=30.0)
    eta.save()
    again = ETA(Goal(1000.0), path)
    for step in range(11, 21):
        again.update("train", step, float(step), step + 1.0, work=30.0)
    assert left(again).middle == pytest.approx(400.0 / 30.0)


def test_steps_that_are_taken_again_count_once() -> None:
    eta = ETA(Goal(100.0))
    for now, step in enumerate([*range(1, 31), *range(21, 41)]):
        eta.update("train", step, float(now), now + 1.0)
    assert left(eta).middle == pytest.approx(60.0)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 9, "done": 0}', "\x00"])
def test_a_broken_state_is_told_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "eta.json"
    path.write_text(text)
    with pytest.raises(ElastaneError, match=r"eta\.json"):
        ETA(PLAN, path)


def test_an_unknown_doing_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ElastaneError, match="did you mean 'validation'"):
        ETA(PLAN).update("validatoin", 1, 0.0, 1.0)


def test_a_plan_without_a_step_is_refused() -> None:
    with pytest.raises(ElastaneError):
        Plan(samples=10, epochs=1, batch=100, drop_last=True)
    with pytest.raises(ElastaneError):
        Plan(samples=0, epochs=1, batch=1)


def test_neither_the_engine_nor_the_live_system_that_uses_it_imports_pytorch() -> None:
    code = (
        "import sys, elastane.predict.eta.log_session, elastane.service.presenters; "
        "sys.exit(bool({'torch', 'sklearn', 'pandas'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
