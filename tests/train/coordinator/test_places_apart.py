"""Members in collectives that never meet are told from members that are only slow."""

from __future__ import annotations

import pytest

from elastane.train.coordinator.places_apart import places_apart
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Beat, Phase, Worker

SETTINGS = Settings(hang_floor_s=5.0, hang_factor=20.0)


def worker(
    name: str, doing: Activity, joined: int = 1, *, since_s: float = 0.0, seen_s: float = 10.0
) -> Worker:
    return Worker(
        name,
        Phase.MEMBER,
        beat=Beat(7, doing, since_s),
        seen_s=seen_s,
        joined=joined,
        done=doing is Activity.OUTSIDE,
    )


def found(*workers: Worker, step_s: float = 0.01) -> list[str] | None:
    apart = places_apart(workers, SETTINGS, step_s, 10.0)
    return None if apart is None else [w.name for w in apart.strays]


STEP, BEHIND, DONE = Activity.WAITING, Activity.EVALUATING, Activity.OUTSIDE


@pytest.mark.parametrize(("old", "new"), [(BEHIND, STEP), (STEP, BEHIND), (DONE, STEP)])
def test_the_newcomer_is_the_one_to_go(old: Activity, new: Activity) -> None:
    assert found(worker("a", old), worker("b", new, joined=3), worker("c", old, joined=2)) == ["b"]


def test_among_those_who_began_together_nobody_is_right() -> None:
    assert found(worker("a", BEHIND), worker("b", STEP), worker("c", STEP, joined=2)) == []


def test_an_end_of_training_among_those_who_began_together_is_left_to_others() -> None:
    assert found(worker("a", DONE), worker("b", STEP)) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (worker("a", BEHIND, since_s=6.0), worker("b", STEP, joined=2)),
        (worker("a", BEHIND), worker("b", STEP, joined=2, since_s=6.0)),
        (worker("a", BEHIND, seen_s=4.0), worker("b", STEP, joined=2)),
        (worker("a", BEHIND), worker("b", BEHIND, joined=2)),
        (worker("a", STEP), worker("b", STEP, joined=2)),
        (worker("a", BEHIND), worker("b", Activity.COMPUTING, joined=2)),
    ],
    ids=["just behind", "just in the step", "silent since", "all behind", "all in the step", "computes"],
)
def test_who_may_still_come_is_left_alone(one: Worker, other: Worker) -> None:
    assert found(one, other) is None


def test_slow_steps_are_given_more_time() -> None:
    assert found(worker("a", BEHIND), worker("b", STEP, joined=2), step_s=1.0) is None
