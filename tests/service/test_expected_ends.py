"""The cache of expected ends alone: it looks ahead anew only when time has passed or other jobs wait."""

from __future__ import annotations

from elastane.cluster import Grant, Node
from elastane.jobs import parse_spec
from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.core_sharing import Machines
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.eta_waiting import ClusterNow
from elastane.service.expected_ends import ExpectedEnds
from elastane.service.store.rows import JobRow
from service.helpers import Clock


def _job(number: int, state: State = State.QUEUED) -> LiveJob:
    row = JobRow(
        number=number,
        name="digits",
        owner="ann",
        tenant="default",
        spec={},
        directory="/tmp",
        submitted_s=0.0,
        state=state,
        kind="adaptive",
        grant=Grant.of([("n0", 1)]) if state is State.RUNNING else None,
    )
    places = {"n0": 1} if row.grant else {}
    return LiveJob(row, parse_spec({"command": "true"}), JobMeasurements("adaptive"), places)


class Queue:
    """Jobs and a clock, and the cache over them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.jobs = {"j1": _job(1), "j2": _job(2)}
        nodes = {"n0": Node("n0", 2, "cpu")}
        self.ends = ExpectedEnds(lambda: self.jobs, lambda: ClusterNow(nodes, Machines(), self.clock()))


def test_it_knows_of_every_job_that_does_not_train() -> None:
    queue = Queue()
    queue.jobs["j3"] = _job(3, State.RUNNING)
    assert set(queue.ends.of_waiting()) == {"j1", "j2"}


def test_who_asks_again_at_once_gets_the_same_answer() -> None:
    queue = Queue()
    first = queue.ends.of_waiting()
    queue.clock.now_s += 0.9
    assert queue.ends.of_waiting() is first


def test_it_looks_again_after_a_while_or_when_the_clock_was_set_back() -> None:
    for by_s in (1.0, -5.0):
        queue = Queue()
        first = queue.ends.of_waiting()
        queue.clock.now_s += by_s
        assert queue.ends.of_waiting() is not first


def test_it_looks_again_when_other_jobs_wait() -> None:
    queue = Queue()
    queue.ends.of_waiting()
    queue.jobs["j1"] = _job(1, State.RUNNING)
    assert set(queue.ends.of_waiting()) == {"j2"}


def test_what_is_forgotten_is_computed_anew() -> None:
    queue = Queue()
    first = queue.ends.of_waiting()
    queue.ends.forget()
    assert queue.ends.of_waiting() is not first
