"""A job over which a start died is set aside by the next and loses nothing; who kills two fails; others go on."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.crash_suspects import FILE, Suspects
from elastane.service.protocol import Conflict, Principal
from service.helpers import ANN, Crash, World, started, world


class Deadly:
    """Makes a control plane die while it takes up (or hears) one job, as often as wanted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
        self.job, self.deaths = job, 0
        self._of = LiveJob.of.__func__  # type: ignore[attr-defined]
        monkeypatch.setattr(LiveJob, "of", classmethod(lambda cls, row: self.take_up(cls, row)))

    def take_up(self, cls: type[LiveJob], row: Any) -> LiveJob:
        if row.id == self.job and self.deaths < 3:
            self.deaths += 1
            raise Crash
        found: LiveJob = self._of(cls, row)
        return found


def crash(w: World) -> None:
    """One start that dies."""
    with pytest.raises(Crash):
        w.crash()


def two_jobs(w: World) -> tuple[str, str]:
    poisoned, innocent = started(w, samples=10**6), started(w, samples=10**6)
    w.pass_time(10.0)
    assert w.live(poisoned).learned.training is not None
    return poisoned, innocent


def test_one_death_is_enough_and_what_the_job_runs_and_has_learned_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        suspect, innocent = two_jobs(w)
        learned = dict(w.row(suspect).training)
        deadly = Deadly(monkeypatch, suspect)
        crash(w)
        w.crash()  # does not look at it, so it lives
        w.pass_time(20.0)
        assert deadly.deaths == 1
        assert list(w.plane.unread) == [suspect]
        assert w.engine.workers_of(suspect)
        assert (w.state(innocent), w.state(suspect)) == (State.RUNNING, State.RUNNING)
        assert [suspect in problem and "set aside" in problem for problem in w.plane.problems] == [True]
        assert "1 start of Elastane died while looking at it" in w.service.job(suspect).reason
        deadly.deaths = 3  # it was anybody's kill
        w.crash()
        assert w.live(suspect).learned.training_json() == learned
        w.pass_time(5.0)
        assert {w.live(job).row.state for job in (suspect, innocent)} == {State.RUNNING}
        assert w.live(suspect).row.attempt == 1
        assert not (tmp_path / FILE).exists()


def test_a_waiting_suspect_can_be_cancelled_and_others_do_not_get_the_slots_of_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, nodes=1, slots=2, policy="fifo") as w:
        running = started(w, samples=10**6, workers=1)
        other, waiting = started(w, samples=10**6, workers=1), w.submit(samples=10**6, workers=1)
        w.round()
        deadly = Deadly(monkeypatch, waiting)
        crash(w)
        w.crash()
        deadly.deaths = 3
        assert set(w.plane.unread) == {waiting}
        w.service.cancel(ANN, waiting)
        assert w.state(waiting) is State.CANCELLED
        deadly = Deadly(monkeypatch, running)
        crash(w)
        w.crash()
        assert set(w.plane.unread) == {running}
        w.service.cancel(ANN, other)
        w.until_state(other, State.CANCELLED)
        third, fourth = (w.submit(samples=10**6, workers=1) for _ in range(2))
        w.pass_time(10.0)
        assert (w.state(third), w.state(fourth)) == (State.RUNNING, State.QUEUED)
        w.service.cancel(ANN, running)
        w.until_state(running, State.CANCELLED)
        w.until_state(fourth, State.RUNNING)


def test_an_administrator_can_have_a_suspect_looked_at_now_its_owner_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        suspect, _ = two_jobs(w)
        deadly = Deadly(monkeypatch, suspect)
        crash(w)
        w.crash()
        w.pass_time(2.0)
        with pytest.raises(Conflict, match="set aside"):
            w.service.resume(ANN, suspect)
        assert deadly.deaths == 1
        admin = Principal("root", "admin", "default")
        with pytest.raises(Crash):
            w.service.resume(admin, suspect)
        w.crash()  # it was noted whom that was for: this is the second death on its account
        w.pass_time(20.0)
        assert deadly.deaths == 2
        assert w.state(suspect) is State.FAILED


def test_a_suspect_that_is_released_goes_on_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        suspect, _ = two_jobs(w)
        deadly = Deadly(monkeypatch, suspect)
        crash(w)
        w.crash()
        deadly.deaths = 3
        w.service.resume(Principal("root", "admin", "default"), suspect)
        w.pass_time(5.0)
        assert w.live(suspect).row.state is State.RUNNING
        assert w.live(suspect).row.attempt == 1
        assert w.live(suspect).places
        assert not (tmp_path / FILE).exists()


def test_a_job_over_which_two_starts_died_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path) as w:
        poisoned, innocent = two_jobs(w)
        deadly = Deadly(monkeypatch, poisoned)
        crash(w)
        w.crash()
        w.pass_time(5.0)
        crash(w)  # the start after a good one tries it again
        w.crash()
        w.pass_time(20.0)
        assert deadly.deaths == 2
        assert w.state(poisoned) is State.FAILED
        assert "died twice" in w.row(poisoned).reason
        assert w.state(innocent) is State.RUNNING


def test_a_waiting_job_over_which_two_starts_died_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo") as w:
        innocent, poisoned = started(w, samples=10**6), w.submit(samples=10_000)
        w.round()
        deadly = Deadly(monkeypatch, poisoned)
        for _ in range(2):
            crash(w)
            w.crash()
            w.pass_time(5.0)
        for _ in range(3):
            w.crash()
            w.pass_time(5.0)
        assert deadly.deaths == 2
        assert w.state(innocent) is State.RUNNING
        assert any(poisoned in problem and "set aside" in problem for problem in w.plane.problems)
        w.service.cancel(ANN, poisoned)
        w.crash()
        w.pass_time(5.0)
        assert not (tmp_path / FILE).exists()


def test_a_start_that_dies_over_somebody_else_keeps_a_suspect_aside(tmp_path: Path) -> None:
    for job in ("j1", "j2"):  # the second start dies over another
        with contextlib.suppress(Crash), Suspects(tmp_path).looking_at(job):
            raise Crash
    third = Suspects(tmp_path)
    assert (third.strikes("j1"), third.strikes("j2")) == (1, 1)
    third.clear()
    fourth = Suspects(tmp_path)
    assert (fourth.died, fourth.strikes("j1"), fourth.strikes("j2")) == (False, 0, 0)
    fifth = Suspects(tmp_path)  # the fourth, which tried both again, died over nobody known
    assert (fifth.nobody, fifth.strikes("j1"), fifth.strikes("j2")) == (True, 1, 1)


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


@pytest.mark.parametrize("text", ["", "nonsense", '{"job": 1, "aside": [2]}', '{"aside": {"j1": "x"}}'])
def test_a_damaged_note_is_no_obstacle(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert Suspects(tmp_path).strikes("j1") == 0
