"""The coordinator against workers that behave, die, and fail in every order."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.train.coordinator.actions import Action, Emit, Finish, Kill, Record, Send, Spawn
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.messages import (
    Aborted,
    Cancelled,
    Go,
    Note,
    Planned,
    Prepared,
    Refused,
    StopTraining,
    ToWorker,
    WorkerHello,
)
from elastane.train.coordinator.plan_entries import (
    Entry,
    GenerationsStored,
    JobEnded,
    PlanMade,
    TargetSet,
    WorkerDone,
    WorkerSpawned,
)
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase
from elastane.train.exit_cause import FINISHED, ExitCause, cancelled

SIGNATURE = {"elastane": "1", "torch": "2", "python": "3", "parameters": [], "settings": {}, "shadow": True}


class FakeWorker:
    """Speaks the worker's side of the protocol; its training is a counter."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world = name, world
        self.alive = True
        self.generation = self.step = self.acknowledged = self.aborted = 0
        self.holds_state = False
        self.plan: Plan | None = None
        self.inbox: deque[ToWorker] = deque()

    def hear(self, message: ToWorker) -> None:
        match message:
            case Planned(plan):
                self.plan = plan
                if plan.urgent:
                    self.enter(plan)
                else:
                    self.prepare(plan)
            case Prepared(generation):
                self.world.tell("loop_begins", self.name, generation)
            case Go(generation) if 0 < self.generation < generation:
                self.world.switch(self.generation, generation)
            case Aborted(generation):
                self.aborted = max(self.aborted, generation)
                self.acknowledge()
            case Cancelled():
                self.plan = None
            case StopTraining() | Refused():
                self.world.exit(self, clean=True)

    def prepare(self, plan: Plan) -> None:
        if self.name in plan.members:
            self.world.tell("built", self.name, plan.generation)
        if self.name in plan.joiners and plan.shadow:
            self.world.tell("caught_up", self.name, plan.generation)

    def enter(self, plan: Plan) -> None:
        if self.aborted >= plan.generation or self.name not in plan.members:
            return
        if plan.source is not None:
            source = self.world.workers[plan.source]
            if not source.alive:
                return
            self.step = source.step
        self.generation, self.holds_state, self.plan = plan.generation, True, None
        self.world.tell("entered", self.name, plan.generation, self.step)

    def acknowledge(self) -> None:
        if self.aborted > self.acknowledged:
            self.acknowledged = self.aborted
            applied = self.step if self.holds_state else None
            self.world.tell("failed", self.name, self.aborted, applied, "aborted")


class World:
    """Carries messages in an order chance decides; keeps what must always hold."""

    def __init__(self, seed: int, workers: int, shadow: bool) -> None:
        self.chance = random.Random(seed)
        self.coordinator = Coordinator(Settings(workers=workers, shadow=shadow, max_deaths=1000))
        self.workers: dict[str, FakeWorker] = {}
        self.calls: deque[tuple[str, tuple[Any, ...]]] = deque()
        self.now = 0.0
        self.finish: Finish | None = None
        self.plans: list[Plan] = []
        self.perform(self.coordinator.start(self.now))

    def tell(self, method: str, *arguments: Any) -> None:
        self.calls.append((method, arguments))

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(worker, message) if worker in self.workers and self.workers[worker].alive:
                    self.workers[worker].inbox.append(message)
                case Spawn(worker):
                    self.workers[worker] = FakeWorker(worker, self)
                    self.tell("hello", WorkerHello(worker))
                    self.tell("ready", worker, SIGNATURE, "host:1")
                case Kill(worker, _):
                    self.workers[worker].alive = False
                case Record(PlanMade(plan)):
                    self.check_plan(plan)
                case Finish():
                    self.finish = action
                case Emit() | Record() | Send():
                    pass

    def check_plan(self, plan: Plan) -> None:
        assert all(plan.generation > earlier.generation for earlier in self.plans[-1:])
        assert len(set(plan.members)) == len(plan.members) > 0
        if plan.kind is Kind.RECOVER:
            assert all(self.workers[name].holds_state for name in plan.members)
        if plan.kind in (Kind.GROW, Kind.MOVE) and not plan.shadow:
            assert plan.source in plan.members
            assert plan.source not in plan.joiners
        self.plans.append(plan)

    def deliver(self) -> bool:
        """One message or one call, whichever chance picks; False when nothing is left."""
        busy: list[FakeWorker | None] = [w for w in self.workers.values() if w.alive and w.inbox]
        if self.calls:
            busy.append(None)
        if not busy:
            return False
        worker = self.chance.choice(busy)
        if worker is not None:
            worker.hear(worker.inbox.popleft())
        else:
            method, arguments = self.calls.popleft()
            self.perform(getattr(self.coordinator, method)(*arguments, self.now))
        return True

    def switch(self, old: int, new: int) -> None:
        """All members of a generation enter the next at the same boundary, unless it broke meanwhile."""
        plan = next(p for p in self.plans if p.generation == new)
        members = [w for w in self.workers.values() if w.alive and w.generation == old]
        if any(w.aborted >= old for w in members):
            return
        for worker in members:
            worker.step += 1
        for worker in [*members, *(self.workers[n] for n in plan.joiners)]:
            if not worker.alive or worker.aborted >= new:
                continue
            if worker.name in plan.members:
                if worker.name in plan.joiners:
                    worker.step = members[0].step
                worker.enter(plan)
            else:
                self.tell("left", worker.name)
                self.exit(worker, clean=True)

    def exit(self, worker: FakeWorker, *, clean: bool) -> None:
        worker.alive = False
        self.tell("exited", worker.name, ExitCause.of_process(0 if clean else -9))

    def train(self) -> None:
        """A step, if a whole generation takes part."""
        for plan in self.plans:
            members = [self.workers[name] for name in plan.members]
            if all(w.alive and w.generation == plan.generation > w.aborted for w in members):
                for worker in members:
                    worker.step += 1
                    self.tell("beat", worker.name, worker.step, Activity.COMPUTING)

    def settle(self) -> None:
        for _ in range(400):
            while self.deliver():
                pass
            self.now += 0.1
            for worker in self.workers.values():
                if worker.alive:
                    self.tell("beat", worker.name, worker.step, Activity.OUTSIDE)
            self.perform(self.coordinator.tick(self.now))
        while self.deliver():
            pass

    def members(self) -> list[str]:
        assert self.coordinator.current is not None
        return list(self.coordinator.current.members)


events = st.lists(
    st.one_of(
        st.tuples(st.just("resize"), st.integers(1, 5)),
        st.tuples(st.just("kill"), st.integers(0, 9)),
        st.tuples(st.just("deliver"), st.integers(1, 12)),
        st.tuples(st.just("train"), st.just(0)),
        st.tuples(st.just("strayed"), st.just(0)),
        st.tuples(st.just("stored"), st.integers(0, 5000)),
    ),
    max_size=25,
)


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 4), st.booleans(), events)
def test_every_history_of_deaths_and_resizes_ends_in_the_wanted_membership(
    seed: int, workers: int, shadow: bool, history: list[tuple[str, int]]
) -> None:
    world = World(seed, workers, shadow)
    target = workers
    for what, number in history:
        if what == "stored":
            world.coordinator._changes.go_on_above(number)
        elif what == "resize":
            target = number
            world.perform(world.coordinator.resize(number, world.now))
        elif what == "kill":
            alive = [w for w in world.workers.values() if w.alive]
            if alive:
                world.exit(alive[number % len(alive)], clean=False)
        elif what == "train":
            world.train()
        elif what == "strayed":
            world.perform(world.coordinator.strayed("w1", world.now))
        else:
            for _ in range(number):
                world.deliver()
    world.settle()
    assert world.finish is None
    members = world.members()
    assert len(members) == target
    assert all(world.workers[name].alive for name in members)
    assert {world.workers[name].generation for name in members} == {world.plans[-1].generation}
    assert len({world.workers[name].step for name in members}) == 1


def started(workers: int = 2) -> World:
    world = World(0, workers, shadow=True)
    world.settle()
    assert len(world.members()) == workers
    return world


def test_a_death_leads_to_an_urgent_plan_without_the_dead_and_then_a_replacement() -> None:
    world = started(3)
    world.exit(world.workers["w1"], clean=False)
    world.settle()
    kinds = [plan.kind for plan in world.plans]
    assert kinds == [Kind.START, Kind.RECOVER, Kind.GROW]
    assert world.plans[1].members == ("w2", "w3")
    assert world.members() == ["w2", "w3", "w4"]


def test_survivors_a_step_apart_take_the_state_of_the_one_ahead() -> None:
    world = started(3)
    world.workers["w2"].step += 1
    world.exit(world.workers["w1"], clean=False)
    world.settle()
    assert world.plans[1].source == "w2"
    assert world.workers["w3"].step == world.workers["w2"].step


def test_a_worker_that_leaves_the_loop_early_ends_the_job_and_is_named() -> None:
    world = started(2)
    world.exit(world.workers["w2"], clean=True)
    world.settle()
    assert world.finish is not None
    assert world.finish.outcome == "failed"
    assert "w2 left the training loop early" in world.finish.cause
    assert "1 others" in world.finish.cause


@pytest.mark.parametrize(("first", "other"), [("w1", "w2"), ("w2", "w1")])
def test_the_end_of_a_last_step_that_took_long_is_no_desertion(first: str, other: str) -> None:
    """The one that waited in it has last said so just before it ended."""
    world = started(1)
    world.perform(world.coordinator.resize(2, world.now))
    world.settle()
    assert world.members() == ["w1", "w2"]
    for _ in range(100):  # one of them compiles
        world.now += 0.1
        world.perform(world.coordinator.beat(first, 10, Activity.COMPUTING, world.now))
        world.perform(world.coordinator.beat(other, 10, Activity.WAITING, world.now))
    world.perform(world.coordinator.done(first, 11, world.now))
    world.now += 0.1
    actions = world.coordinator.tick(world.now)
    assert not [action for action in actions if isinstance(action, Finish | Kill)]
    world.perform(world.coordinator.done(other, 11, world.now))
    for name in (first, other):
        world.exit(world.workers[name], clean=True)
    world.settle()
    assert world.finish == Finish(FINISHED)


def test_silence_longer_than_the_lease_is_fenced() -> None:
    world = started(2)
    world.now += 10.0
    world.tell("beat", "w1", 5, Activity.WAITING)
    while world.deliver():
        pass
    actions = world.coordinator.tick(world.now)
    assert any(isinstance(a, Kill) and a.worker == "w2" for a in actions)
    assert not any(isinstance(a, Kill) and a.worker == "w1" for a in actions)


def test_a_worker_that_beats_but_makes_no_progress_while_others_wait_is_fenced() -> None:
    world = started(2)
    world.coordinator._registry.progressed(10)
    world.perform(
        world.coordinator.beat("w2", 5, Activity.COMPUTING, world.now)
    )  # its first steps are long past
    killed: list[str] = []
    for _ in range(100):
        world.now += 0.1
        world.perform(world.coordinator.beat("w1", 10, Activity.WAITING, world.now))
        world.perform(world.coordinator.beat("w2", 10, Activity.COMPUTING, world.now))
        killed += [a.worker for a in world.coordinator.tick(world.now) if isinstance(a, Kill)]
    assert killed == ["w2"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"torch": "9"}, "has torch 9 where the others have 2"),
        ({"parameters": [["a", [1], "f"]]}, "has 1 parameters where the others have 0"),
        ({"settings": {"seed": 7}}, "was set up with seed 7 where the others have None"),
    ],
)
def test_a_worker_that_differs_is_refused_with_the_first_difference(change: dict[str, Any], words: str) -> None:
    world = started(1)
    world.perform(world.coordinator.resize(2, world.now))
    world.calls.clear()
    world.perform(world.coordinator.hello(WorkerHello("w2"), world.now))
    world.perform(world.coordinator.ready("w2", {**SIGNATURE, **change}, "", world.now))
    refusals = [m for m in world.workers["w2"].inbox if isinstance(m, Refused)]
    assert words in refusals[0].cause
    notes = [m for m in world.workers["w1"].inbox if isinstance(m, Note)]
    assert words in notes[0].text


def test_training_that_ends_is_finished_only_when_all_have_left() -> None:
    world = started(2)
    for name in ("w1", "w2"):
        world.tell("done", name, 100)
    world.exit(world.workers["w1"], clean=True)
    world.settle()
    assert world.finish is None
    world.exit(world.workers["w2"], clean=True)
    world.settle()
    assert world.finish == Finish(FINISHED)


def test_a_job_that_is_stopped_does_not_wait_for_newcomers() -> None:
    world = started(2)
    world.perform(world.coordinator.resize(3, world.now))
    world.calls.clear()  # the third imports and builds its model, for as long as that takes
    asked = world.coordinator.stop(cancelled("interrupted"), world.now)
    assert Kill("w3", "interrupted") in asked
    told = {
        action.worker
        for action in asked
        if isinstance(action, Send) and isinstance(action.message, StopTraining)
    }
    assert told == {"w1", "w2"}
    world.perform(asked)
    world.settle()
    assert world.finish == Finish(cancelled("interrupted"))


def _killed(world: World, name: str) -> None:
    world.workers.pop(name)
    world.perform(world.coordinator.exited(name, ExitCause.of_process(-9), world.now))


@pytest.mark.parametrize("victim", ["w1", "w2"])
def test_a_worker_killed_after_training_does_not_take_the_result_along(victim: str) -> None:
    world = started(2)
    for name in ("w1", "w2"):
        world.tell("done", name, 100)
    while world.deliver():
        pass
    _killed(world, victim)
    world.settle()
    assert world.finish is None
    (other,) = {"w1", "w2"} - {victim}
    world.exit(world.workers[other], clean=True)
    world.settle()
    assert world.finish == Finish(FINISHED)


def test_the_end_of_the_script_is_repeated_if_everybody_was_killed_after_training() -> None:
    world = started(1)
    world.tell("done", "w1", 100)
    while world.deliver():
        pass
    _killed(world, "w1")
    world.settle()
    assert world.finish is None
    assert world.members() == ["w2"]


def test_an_error_of_the_script_after_training_still_fails_the_job() -> None:
    world = started(2)
    for name in ("w1", "w2"):
        world.tell("done", name, 100)
    while world.deliver():
        pass
    world.coordinator.said_goodbye("w2", "ValueError: no such folder")
    world.perform(world.coordinator.exited("w2", ExitCause.of_process(1), world.now))
    assert world.coordinator.outcome is not None
    assert world.coordinator.outcome.outcome == "failed"


def test_the_same_end_twice_before_a_word_was_said_fails_the_job_with_its_cause() -> None:
    coordinator, words = Coordinator(Settings(workers=1)), "ModuleNotFoundError: No module named 'nosuchmodule'"
    coordinator.start(1.0)
    for name in ("w1", "w2"):
        assert coordinator.outcome is None
        coordinator.said_goodbye(name, words)
        coordinator.exited(name, ExitCause.of_process(1), 2.0)
    assert coordinator.outcome == Finish(ExitCause.of_process(1).told(words))
    assert coordinator.outcome.exit.words == words


def test_a_restarted_coordinator_adopts_running_workers_without_touching_them() -> None:
    world = started(2)
    entries = [
        TargetSet(2),
        WorkerSpawned("w1"),
        WorkerSpawned("w2"),
        PlanMade(world.plans[0]),
    ]
    world.coordinator = Coordinator.adopt(Settings(workers=2), entries, world.now)
    for name in ("w1", "w2"):
        account = {"phase": Phase.MEMBER, "generation": 1, "signature": SIGNATURE, "applied": 7}
        world.tell("hello", WorkerHello(name, **account))
    world.settle()
    assert len(world.plans) == 1
    world.perform(world.coordinator.resize(3, world.now))
    world.settle()
    assert world.members() == ["w1", "w2", "w3"]
    joined = {name: worker.joined for name, worker in world.coordinator.workers.items()}
    assert joined["w1"] == joined["w2"] < joined["w3"], "who came later is told apart as before"


def _adopted_after_training(world: World) -> None:
    entries = [
        TargetSet(1),
        WorkerSpawned("w1"),
        PlanMade(world.plans[0]),
        WorkerDone("w1"),
    ]
    world.coordinator = Coordinator.adopt(Settings(workers=1), entries, world.now)


def test_a_worker_that_ended_well_while_nobody_listened_has_finished_the_job() -> None:
    world = started(1)
    _adopted_after_training(world)
    world.exit(world.workers["w1"], clean=True)
    world.settle()
    assert world.finish == Finish(FINISHED)


def test_a_worker_of_whose_end_nothing_is_heard_is_replaced_even_after_training() -> None:
    world = started(1)
    _adopted_after_training(world)
    world.workers["w1"].alive = False
    world.settle()
    assert world.finish is None
    assert world.members() == ["w2"]


def test_the_end_of_an_earlier_run_with_the_same_log_is_not_the_end_of_this_one() -> None:
    world = started(2)
    entries = [
        TargetSet(1),
        WorkerSpawned("w0"),
        PlanMade(Plan(1, Kind.START, ("w0",))),
        JobEnded("stopped", "suspended"),
        TargetSet(2),
        WorkerSpawned("w1"),
        WorkerSpawned("w2"),
        PlanMade(world.plans[0]),
    ]
    world.coordinator = Coordinator.adopt(Settings(workers=2), entries, world.now)
    assert world.coordinator.outcome is None
    assert sorted(world.coordinator.workers) == ["w1", "w2"]


def test_a_coordinator_restarted_in_the_middle_of_a_change_re_forms_the_group() -> None:
    world = started(2)
    grown = Plan(2, Kind.GROW, ("w1", "w2", "w3"), joiners=("w3",))
    entries = [
        TargetSet(2),
        *(WorkerSpawned(name) for name in ("w1", "w2")),
        PlanMade(world.plans[0]),
        PlanMade(grown),
    ]
    world.coordinator = Coordinator.adopt(Settings(workers=2), entries, world.now)
    for name in ("w1", "w2"):
        world.tell("hello", WorkerHello(name, phase=Phase.MEMBER, generation=1, signature=SIGNATURE))
    world.settle()
    assert world.plans[-1].kind is Kind.RECOVER
    assert world.plans[-1].generation == 3
    assert world.members() == ["w1", "w2"]


def test_members_have_their_time_to_enter_from_when_they_may_however_long_the_preparation_took() -> None:
    coordinator = Coordinator(
        Settings(workers=1, lease_s=1000.0, warm_lease_s=1000.0, enter_s=60.0, prepare_s=120.0)
    )
    coordinator.start(0.0)
    coordinator.hello(WorkerHello("w1"), 0.0)
    coordinator.ready("w1", SIGNATURE, "", 0.0)
    coordinator.entered("w1", 1, 0, 0.0)
    coordinator.resize(2, 0.0)
    coordinator.hello(WorkerHello("w2"), 0.0)
    coordinator.ready("w2", SIGNATURE, "", 0.0)
    coordinator.beat("w1", 9, Activity.WAITING, 99.0)
    coordinator.built("w1", 2, 100.0)
    coordinator.built("w2", 2, 100.0)
    assert any(
        isinstance(each, Send) and each.message == Go(2) for each in coordinator.caught_up("w2", 2, 100.0)
    )
    assert not [each for each in coordinator.tick(159.0) if isinstance(each, Kill)]
    assert {each.worker for each in coordinator.tick(161.0) if isinstance(each, Kill)} == {"w1", "w2"}


def begun_above(coordinator: Coordinator, stored: int, worker: str = "w1") -> tuple[int, list[Entry]]:
    """The first generation of a coordinator whose worker sees this one stored, and what was recorded."""
    actions = coordinator.start(0.0)
    actions += coordinator.hello(WorkerHello(worker), 0.0)
    actions += coordinator.ready(worker, SIGNATURE, "", 0.0, stored=stored)
    entries = [each.entry for each in actions if isinstance(each, Record)]
    (plan,) = [entry.plan for entry in entries if isinstance(entry, PlanMade)]
    return plan.generation, entries


def test_generations_never_begin_below_what_is_stored_although_the_log_is_lost() -> None:
    generation, entries = begun_above(Coordinator(Settings(workers=1)), 12)
    assert generation > 12 + 100  # the lost run may have come further than it has written
    assert [type(entry) for entry in entries] == [TargetSet, WorkerSpawned, GenerationsStored, PlanMade]
    again, more = begun_above(Coordinator.after(Settings(workers=1), entries), generation, "w2")
    assert again == generation + 1
    assert GenerationsStored not in [type(entry) for entry in more]


def test_what_was_said_of_stored_generations_outlives_the_coordinator() -> None:
    _, entries = begun_above(Coordinator(Settings(workers=1)), 12)
    before = [entry for entry in entries if not isinstance(entry, PlanMade)]
    adopted = Coordinator.adopt(Settings(workers=1), before, 0.0)
    actions = adopted.hello(WorkerHello("w1", phase=Phase.READY, signature=SIGNATURE), 1.0)
    (plan,) = [
        each.entry.plan for each in actions if isinstance(each, Record) and isinstance(each.entry, PlanMade)
    ]
    assert plan.generation > 12 + 100


@pytest.mark.parametrize("stored", [0, 2**52])
def test_an_empty_place_and_nonsense_change_nothing(stored: int) -> None:
    assert begun_above(Coordinator(Settings(workers=1)), stored)[0] == 1


@pytest.mark.parametrize("seed", range(20))
def test_changes_and_deaths_go_on_above_what_a_newcomer_sees(seed: int) -> None:
    world = World(seed, 2, True)
    world.settle()
    world.coordinator._changes.go_on_above(50)  # whatever is under way
    world.perform(world.coordinator.resize(3, world.now))
    world.settle()
    assert len(world.members()) == 3
    assert world.plans[-1].generation > 1050
    world.exit(world.workers[world.members()[0]], clean=False)
    world.settle()
    assert len(world.members()) == 3
    assert world.plans[-1].generation > 1051
