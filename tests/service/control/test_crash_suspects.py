"""A job over which starts die is set aside, and the others go on; one death alone costs it only what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.crash_suspects import FILE, Suspects
from service.helpers import Crash, World, started, world


class Deadly:
    """Makes a control plane die while it takes up (or hears) one job, as often as wanted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, job: str, *, learned_only: bool) -> None:
        self.job, self.deaths, self._learned_only = job, 0, learned_only
        self._of = LiveJob.of.__func__  # type: ignore[attr-defined]
        monkeypatch.setattr(LiveJob, "of", classmethod(lambda cls, row: self.take_up(cls, row)))

    def take_up(self, cls: type[LiveJob], row: Any) -> LiveJob:
        if row.id == self.job and (row.training or not self._learned_only) and self.deaths < 3:
            self.deaths += 1
            raise Crash
        found: LiveJob = self._of(cls, row)
        return found


def crash(w: World) -> None:
    """One start that dies."""
    with pytest.raises(Crash):
        w.crash()


def two_jobs(w: World) -> tuple[str, str]:
    poisoned, innocent = started(w, samples=10_000), started(w, samples=10_000)
    w.pass_time(10.0)
    assert w.live(poisoned).learned.training is not None
    return poisoned, innocent


def test_what_was_learned_of_a_job_is_forgotten_if_a_start_died_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        poisoned, innocent = two_jobs(w)
        deadly = Deadly(monkeypatch, poisoned, learned_only=True)
        crash(w)
        w.crash()
        assert deadly.deaths == 1
        w.pass_time(5.0)
        assert {w.live(job).row.state.value for job in (poisoned, innocent)} == {"running"}
        assert not (tmp_path / FILE).exists()


def test_a_job_over_which_two_starts_died_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path) as w:
        poisoned, innocent = two_jobs(w)
        deadly = Deadly(monkeypatch, poisoned, learned_only=False)
        crash(w)
        crash(w)
        deadly.deaths = 3  # the third start lives
        w.crash()
        w.pass_time(20.0)
        assert w.state(poisoned) is State.FAILED
        assert w.state(innocent) is State.RUNNING


def test_a_waiting_job_over_which_two_starts_died_is_left_alone_and_people_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo") as w:
        innocent, poisoned = started(w, samples=10_000), w.submit(samples=10_000)
        w.round()
        Deadly(monkeypatch, poisoned, learned_only=False)
        crash(w)
        crash(w)
        w.crash()
        w.pass_time(5.0)
        assert w.state(innocent) is State.RUNNING
        assert any(poisoned in problem and "left alone" in problem for problem in w.plane.problems)


def test_jobs_are_looked_at_one_by_one_if_it_is_not_known_over_whom_a_start_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        poisoned, innocent = two_jobs(w)
        view, looked = LiveJob.view, []

        def watched(self: LiveJob, *given: Any) -> Any:
            looked.append(self.id)
            return view(self, *given)

        monkeypatch.setattr(LiveJob, "view", watched)
        Suspects(tmp_path)  # a start that died over nobody
        w.crash()
        assert looked == [poisoned, innocent]


def test_an_exception_is_no_death(tmp_path: Path) -> None:
    suspects = Suspects(tmp_path)
    with pytest.raises(ValueError, match="bad"), suspects.looking_at("j1"):
        raise ValueError("bad")
    after = Suspects(tmp_path)
    assert after.died
    assert after.strikes("j1") == 0
    after.clear()
    assert not Suspects(tmp_path).died


@pytest.mark.parametrize("text", ["", "nonsense", '{"job": 1, "strikes": [2]}', '{"strikes": {"j1": "x"}}'])
def test_a_damaged_note_is_no_obstacle(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert Suspects(tmp_path).strikes("j1") == 0
