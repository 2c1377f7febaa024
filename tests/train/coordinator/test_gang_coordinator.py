"""What a coordinator of processes that never talk guarantees, whatever those processes do."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.coordinator.actions import Action, Emit, Finish, Kill, Record, Send, Signal, Spawn
from elastane.train.coordinator.gang_coordinator import Meeting, PlainCoordinator
from elastane.train.coordinator.messages import Refused, WorkerHello
from elastane.train.coordinator.settings import Settings
from elastane.train.exit_cause import FINISHED, ExitCause, cancelled

GRACE_S = 5.0


@dataclass
class World:
    """Processes as the operating system has them; they do what a test says, and only a kill is certain."""

    elastic: bool = True
    workers: int = 2
    max_workers: int | None = None
    now_s: float = 100.0
    queued: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    spawned: list[str] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)
    environments: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ports = count(20001)
        self.told = PlainCoordinator(
            Settings(workers=self.workers, max_workers=self.max_workers),
            self.elastic,
            Meeting("run-1", lambda _: "127.0.0.1", lambda: next(ports)),
        )

    def perform(self, actions: Sequence[Action]) -> None:
        new = [action.worker for action in actions if isinstance(action, Spawn)]
        if new:
            assert not self.running, "a new gang starts while an old process lives"
            assert not self.queued, "a new gang is asked for while an old one has not come up"
        killed = []
        for action in actions:
            match action:
                case Spawn(worker):
                    self.queued.append(worker)
                case Signal(worker, number):
                    assert number == signal.SIGTERM
                    assert worker in self.running
                    self.asked.append(worker)
                case Kill(worker, _):
                    killed.append(worker)
                case Emit(event):
                    self.events.append(event.to_json())
                case Finish():
                    self.finishes.append(action)
        for worker in killed:
            self.exit(worker, -9)

    def start(self) -> World:
        self.perform(self.told.start(self.now_s))
        return self

    def come_up(self, how_many: int = 1000) -> World:
        """The fork server forks the next processes that were asked for."""
        for _ in range(min(how_many, len(self.queued))):
            worker = self.queued.pop(0)
            self.environments[worker] = self.told.environment(worker)
            self.spawned.append(worker)
            self.running.append(worker)
            self.perform(self.told.started(worker, self.now_s))
        return self

    def exit(self, worker: str, code: int = 0) -> None:
        if worker in self.running:
            self.running.remove(worker)
            self.perform(self.told.exited(worker, ExitCause.of_process(code), self.now_s))

    def exit_asked(self) -> World:
        for worker in list(self.asked):
            self.exit(worker, -15)
        return self

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.perform(self.told.tick(self.now_s))

    def resize(self, workers: int, drop: Sequence[str] = ()) -> None:
        self.perform(self.told.resize(workers, self.now_s, drop))

    def of_type(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["type"] == kind]


def running(elastic: bool = True, workers: int = 2) -> World:
    return World(elastic, workers).start().come_up()


steps = st.one_of(
    st.tuples(st.just("come_up"), st.integers(1, 4)),
    st.tuples(st.just("finish"), st.integers(0, 7)),
    st.tuples(st.just("die"), st.integers(0, 7)),
    st.tuples(st.just("obey"), st.integers(0, 7)),
    st.tuples(st.just("resize"), st.integers(1, 4)),
    st.tuples(st.just("drop"), st.integers(0, 7)),
    st.tuples(st.just("wait"), st.sampled_from([1, 6, 40])),
    st.tuples(st.just("stop"), st.just(0)),
)


def take(world: World, step: tuple[str, int]) -> None:
    what, number = step
    chosen = world.running[number % len(world.running)] if world.running else ""
    match what:
        case "come_up":
            world.come_up(number)
        case "finish":
            world.exit(chosen)
        case "die":
            world.exit(chosen, 1)
        case "obey":
            if chosen in world.asked:
                world.exit(chosen, -15)
        case "resize":
            world.resize(number)
        case "drop":
            world.resize(world.told.target, [chosen])
        case "wait":
            world.wait(number)
        case "stop":
            world.perform(world.told.stop(cancelled("asked to"), world.now_s))


def run_out(world: World) -> None:
    """Let everybody who is left do its work; whoever was asked to leave has to be killed."""
    for _ in range(50):
        world.come_up()
        world.wait(GRACE_S + 1)
        for worker in list(world.running):
            if worker not in world.asked:
                world.exit(worker)
        if world.told.outcome is not None:
            return


@given(elastic=st.booleans(), workers=st.integers(1, 4), taken=st.lists(steps, max_size=40))
def test_gangs_never_overlap_and_the_job_ends_with_nobody_left(elastic, workers, taken) -> None:
    world = World(elastic, workers).start()  # overlaps are found by World.perform
    for step in taken:
        take(world, step)
    run_out(world)
    assert len(world.finishes) == 1
    assert world.finishes[0] == world.told.outcome
    assert not world.running
    assert not world.queued
    assert len(set(world.spawned)) == len(world.spawned), "a name was used twice"


@given(workers=st.integers(1, 4), taken=st.lists(steps, max_size=40))
def test_each_gang_has_every_rank_once_and_a_port_of_its_own(workers, taken) -> None:
    world = World(True, workers).start()
    for step in taken:
        take(world, step)
    run_out(world)
    gangs: dict[str, list[dict[str, str]]] = {}
    for environment in world.environments.values():
        gangs.setdefault(environment["MASTER_PORT"], []).append(environment)
    for gang in gangs.values():
        size = len(gang)
        assert sorted(int(each["RANK"]) for each in gang) == list(range(size))
        for each in gang:
            assert each["WORLD_SIZE"] == each["LOCAL_WORLD_SIZE"] == str(size)
            assert each["LOCAL_RANK"] == each["RANK"]


@given(taken=st.lists(steps, max_size=40))
def test_a_command_has_one_gang_only(taken) -> None:
    world = World(False, 2).start()
    for step in taken:
        take(world, step)
    run_out(world)
    assert world.spawned == ["w1", "w2"]


def test_workers_find_what_torchrun_would_tell_them() -> None:
    assert running().environments["w2"] == {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "ROLE_RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "ROLE_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "20001",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_RUN_ID": "run-1",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def test_all_clean_exits_finish_the_job() -> None:
    world = running()
    world.exit("w1")
    assert world.told.outcome is None
    world.exit("w2")
    assert world.finishes == [Finish(FINISHED)]


def test_a_resize_stops_everybody_and_says_how_long_the_pause_was() -> None:
    world = running(workers=1)
    world.resize(3)
    assert world.asked == ["w1"]
    world.wait(2.0)
    world.exit_asked()
    world.now_s += 0.5
    world.come_up()
    resized = world.of_type("resized")[-1]
    assert (resized["kind"], resized["before"], resized["after"]) == ("grow", 1, 3)
    assert resized["pause_s"] == pytest.approx(2.5)
    assert resized["breakdown"] == pytest.approx({"stop": 2.0, "start": 0.5})
    assert world.told.current.members == ("w2", "w3", "w4")


def test_a_death_restarts_everybody_and_counts() -> None:
    world = running()
    world.exit("w2", -9)
    assert world.asked == ["w1"]
    world.exit_asked().come_up()
    assert world.of_type("worker_lost")[0]["cause"] == "killed by signal 9"
    assert world.of_type("resized")[-1]["kind"] == "recover"
    assert world.environments["w3"]["TORCHELASTIC_RESTART_COUNT"] == "1"


def test_a_consequence_of_the_stop_is_not_another_death() -> None:
    world = running(workers=3)
    world.exit("w2", -9)
    world.exit("w1", 1)
    world.exit("w3", 1)
    assert len(world.of_type("worker_lost")) == 1
    assert world.told.restarts == 1


def test_three_restarts_in_a_row_are_enough() -> None:
    world = running(workers=1)
    for name in ("w1", "w2", "w3"):
        world.exit(name, 1)
        world.come_up()
    world.told.said_goodbye("w4", "ValueError: no")
    world.exit("w4", 1)
    outcome = world.told.outcome
    assert outcome.outcome == "failed"
    assert (
        outcome.cause
        == "given up after 3 restarts: worker w4 (rank 0): exit code 1; its last words: ValueError: no"
    )


def test_a_gang_that_ran_for_a_while_begins_a_new_row() -> None:
    world = running(workers=1)
    for number in range(1, 11):
        world.wait(31.0)
        world.exit(f"w{number}", 1)
        world.come_up()
    assert world.told.outcome is None


def test_resizes_are_not_counted_as_restarts() -> None:
    world = running(workers=1)
    for workers in (2, 1, 3, 1, 2, 1):
        world.resize(workers)
        world.exit_asked().come_up()
    assert world.told.restarts == 0
    assert world.told.outcome is None


def test_resizes_while_one_is_under_way_become_one() -> None:
    world = running(workers=1)
    for workers in (2, 4, 3):
        world.resize(workers)
    world.exit_asked().come_up()
    assert [event["after"] for event in world.of_type("resized")] == [1, 3]


def test_a_resize_while_a_gang_comes_up_reaches_those_that_come_later() -> None:
    world = World(workers=2).start().come_up(1)
    world.wait(3.0)
    world.resize(3)
    assert world.asked == ["w1"]
    world.come_up()
    assert world.asked == ["w1", "w2"]
    world.exit_asked().come_up()
    (resized,) = world.of_type("resized")
    assert (resized["kind"], resized["after"], resized["pause_s"]) == ("start", 3, 3.0)


def test_whoever_ignores_the_request_to_leave_is_killed_after_the_grace() -> None:
    world = running(workers=1)
    world.resize(2)
    world.wait(GRACE_S - 0.1)
    assert world.running == ["w1"]
    world.wait(0.1)
    assert world.running == []
    assert world.queued == ["w2", "w3"]


def test_a_dropped_worker_is_replaced() -> None:
    world = running()
    world.resize(2, drop=["w1"])
    world.exit_asked().come_up()
    assert world.of_type("resized")[-1]["kind"] == "move"
    assert world.running == ["w3", "w4"]


def test_a_resize_to_the_present_size_disturbs_nobody() -> None:
    world = running()
    world.resize(2)
    assert world.asked == []


def test_no_more_workers_than_the_job_may_have() -> None:
    world = World(workers=1, max_workers=2).start().come_up()
    world.resize(7)
    world.exit_asked().come_up()
    assert world.told.target == len(world.running) == 2


def test_a_job_of_which_some_have_finished_is_not_started_again_for_a_resize() -> None:
    world = running()
    world.exit("w1")
    world.resize(3)
    assert world.asked == []
    assert "too late" in world.of_type("warned")[0]["text"]
    world.exit("w2")
    assert world.told.outcome == Finish(FINISHED)


def test_a_command_refuses_to_be_resized() -> None:
    world = running(elastic=False)
    world.resize(4)
    assert world.asked == []
    assert world.told.target == 2
    assert world.of_type("warned")[0]["text"] == "a command cannot be resized: it keeps its 2, not 4 workers"


def test_the_first_failure_ends_a_command_and_is_its_cause() -> None:
    world = running(elastic=False, workers=3)
    world.told.said_goodbye("w2", "KeyError: 'x'")
    world.exit("w2", 1)
    assert world.asked == ["w1", "w3"]
    assert world.told.outcome is None, "over only when everybody is gone"
    world.told.said_goodbye("w3", "connection lost")
    world.exit("w3", 1)
    world.exit("w1", -15)
    cause = "worker w2 (rank 1): exit code 1; its last words: KeyError: 'x'"
    assert world.finishes == [Finish(ExitCause.of_process(1).told(cause))]
    assert world.finishes[0].exit.words == "KeyError: 'x'"


def test_a_stop_wins_over_a_restart_but_not_over_a_failure() -> None:
    stopped = running()
    stopped.exit("w1", 1)
    stopped.perform(stopped.told.stop(cancelled("asked to"), stopped.now_s))
    stopped.exit_asked()
    assert stopped.told.outcome == Finish(cancelled("asked to"))
    failed = running(elastic=False)
    failed.exit("w1", 1)
    failed.perform(failed.told.stop(cancelled("asked to"), failed.now_s))
    failed.exit_asked()
    assert failed.told.outcome.outcome == "failed"


def test_names_and_generations_of_an_earlier_run_are_not_used_again() -> None:
    earlier, entries = running(), []
    for action in PlainCoordinator(Settings(workers=2), True, Meeting("r", lambda _: "h", lambda: 1)).start(
        0.0
    ):
        if isinstance(action, Record):
            entries.append(action.entry)
    later = World(workers=1)
    later.told.resume(entries)
    later.start().come_up()
    assert not set(later.spawned) & set(earlier.spawned)
    assert later.told.current.generation == earlier.told.current.generation + 1


def test_a_worker_that_wants_to_talk_is_refused() -> None:
    (answer,) = running().told.hello(WorkerHello("w1"), 0.0)
    assert isinstance(answer, Send)
    assert isinstance(answer.message, Refused)


def test_a_job_whose_processes_were_never_started_can_be_stopped() -> None:
    world = World(workers=2).start()
    world.queued.clear()  # nobody is there who could start them
    world.perform(world.told.stop(cancelled("asked to stop"), world.now_s))
    assert not world.finishes
    world.perform(world.told.tick(world.now_s + GRACE_S))
    assert [finish.outcome for finish in world.finishes] == ["stopped"]
