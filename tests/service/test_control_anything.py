"""Whatever people ask for and whatever breaks, in any order: what must always be true of the control plane."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from elastane.engines.contract import Cause, places_of
from elastane.errors import ElastaneError
from elastane.service.store import JobRow
from elastane.testing.engines.fake_work import Delays
from service.helpers import ANN, ENDS, Crash, World, plain

NODES, SLOTS = 3, 2
POLICIES = ("elastane", "fifo", "fifo(mode=fit)", "tiresias", "srtf")
a_delay = st.sampled_from([0.0, 1.0, 3.0])
a_node = st.sampled_from([f"n{i}" for i in range(NODES)])


class Anything(RuleBasedStateMachine):
    """One control plane after another, on one engine and one store."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.ids: list[str] = []
        self.ended: dict[str, JobRow] = {}
        self.served: dict[str, float] = {}

    @initialize(
        policy=st.sampled_from(POLICIES),
        delays=st.builds(Delays, a_delay, a_delay, a_delay, st.just(2.0)),
        min_run_s=st.sampled_from([0.0, 20.0]),
    )
    def begin(self, policy: str, delays: Delays, min_run_s: float) -> None:
        self.world = World(
            Path(self.home.name),
            nodes=NODES,
            slots=SLOTS,
            policy=policy,
            delays=delays,
            interval_s=10.0,
            min_run_s=min_run_s,
        )

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.everything_ends_once_faults_stop()
            finally:
                self.world.end()
                self.home.cleanup()

    def attempt(self, what: Callable[[], object]) -> None:
        """Do it and look; a refusal is fine, and so is a crash, after which another control plane goes on."""
        try:
            with suppress(ElastaneError):
                what()
            self.world.round()
        except Crash:
            self.crash()

    def some(self, index: int) -> str:
        return self.ids[index % len(self.ids)]

    # What people ask for.

    @rule(
        kind=st.sampled_from(["adaptive", "resizable", "rigid", "command"]),
        least=st.integers(1, 3),
        more=st.integers(0, 4),
        samples=st.sampled_from([100, 1000, 6000]),
        retries=st.integers(0, 2),
        tenant=st.sampled_from(["default", "other"]),
        priority=st.integers(0, 2),
    )
    def submit(self, kind: str, least: int, more: int, samples: int, **rest: Any) -> None:
        workers = {"min": least, "max": least + (0 if kind in ("rigid", "command") else more)}
        self.attempt(
            lambda: self.ids.append(
                self.world.submit(kind=kind, workers=workers, samples=samples, sync_s=0.01, **rest)
            )
        )

    @precondition(lambda self: self.ids)
    @rule(index=st.integers(0, 50), verb=st.sampled_from(["cancel", "suspend", "resume", "resume"]))
    def ask(self, index: int, verb: str) -> None:
        self.attempt(lambda: getattr(self.world.service, verb)(ANN, self.some(index)))

    @precondition(lambda self: self.ids)
    @rule(index=st.integers(0, 50), workers=st.none() | st.integers(1, 6))
    def scale(self, index: int, workers: int | None) -> None:
        self.attempt(lambda: self.world.service.scale(ANN, self.some(index), workers))

    @precondition(lambda self: self.ids)
    @rule(index=st.integers(0, 50), node=a_node)
    def move(self, index: int, node: str) -> None:
        self.attempt(lambda: self.world.service.move(ANN, self.some(index), node))

    @rule(node=a_node, draining=st.booleans())
    def drain(self, node: str, draining: bool) -> None:
        self.attempt(lambda: self.world.service.drain(ANN, node, draining))

    @rule(slots=st.none() | st.integers(0, 6))
    def quota(self, slots: int | None) -> None:
        self.attempt(lambda: self.world.service.set_quota(ANN, "other", slots, None, None))

    @rule(policy=st.sampled_from(POLICIES))
    def other_policy(self, policy: str) -> None:
        self.attempt(lambda: self.world.service.set_policy(ANN, policy))

    @precondition(lambda self: self.ids)
    @rule(index=st.integers(0, 50))
    def look(self, index: int) -> None:
        """Every question has an answer, whatever the state."""
        service, job = self.world.service, self.some(index)
        assert service.why(job, instead=True).reason
        assert service.job(job).id == job
        assert len(service.jobs("all")) == len(self.ids)
        assert len(service.nodes()) == NODES
        assert service.gauges()

    # What happens.

    @rule(node=a_node)
    def lose(self, node: str) -> None:
        self.attempt(lambda: self.world.engine.lose_node(node))

    @rule(node=a_node)
    def bring_back(self, node: str) -> None:
        self.attempt(lambda: self.world.engine.bring_back(node))

    @rule(node=a_node)
    def blink(self, node: str) -> None:
        """Away and back before anybody looks."""
        self.world.engine.lose_node(node)
        self.attempt(lambda: self.world.engine.bring_back(node))

    @precondition(lambda self: self.ids)
    @rule(index=st.integers(0, 50), cause=st.sampled_from([Cause.FAILED, Cause.OUT_OF_MEMORY, Cause.LOST]))
    def fail(self, index: int, cause: Cause) -> None:
        self.attempt(lambda: self.world.engine.fail(self.some(index), cause))

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 30.0]), by_s=st.sampled_from([0.5, 2.0, 30.0]))
    def wait(self, seconds: float, by_s: float) -> None:
        self.attempt(lambda: self.world.pass_time(seconds, by_s))

    @rule()
    def crash(self) -> None:
        try:
            self.world.crash()
        except Crash:  # the next one did not live long
            self.world.crash()

    @rule(wishes=st.integers(0, 3))
    def crash_soon(self, wishes: int) -> None:
        self.world.engine.crash_in = wishes

    # What must be true.

    @invariant()
    def grants_fit(self) -> None:
        if not self.ids:
            return
        used: dict[str, int] = {}
        for job in self.world.plane.live.values():
            low, high = job.spec.workers.min, job.spec.max_workers
            grant = job.row.grant
            assert (grant is not None) == job.holding
            if grant is not None:
                assert low <= grant.workers <= (high or NODES * SLOTS)
            for node, count in places_of(grant).items():
                used[node] = used.get(node, 0) + count
        assert all(count <= SLOTS for count in used.values())

    @invariant()
    def commands_have_all_their_workers_or_none(self) -> None:
        for job in self.world.plane.live.values() if self.ids else ():
            there = sum(self.world.engine.workers_of(job.id).values())
            assert job.row.kind != "rigid" or there in (0, job.spec.workers.min)

    @invariant()
    def nothing_is_started_twice(self) -> None:
        if self.ids:
            assert all(count == 1 for count in self.world.engine.starts.values())

    @invariant()
    def what_has_ended_stays_as_it_is_and_ledgers_only_grow(self) -> None:
        for job in self.ids:
            row = self.world.row(job)
            if row.terminal:
                kept = self.ended.setdefault(job, row)
                assert replace(row, training=kept.training, profile=kept.profile) == kept
                assert job not in self.world.plane.live
            else:
                assert plain(self.world.live(job).row) == plain(row)
            assert 0.0 <= self.served.get(job, 0.0) <= row.service_gpu_s
            self.served[job] = row.service_gpu_s
            assert row.held_s >= 0.0

    def everything_ends_once_faults_stop(self) -> None:
        world, service = self.world, self.world.service
        world.engine.crash_in = None
        world.service.set_quota(ANN, "other", None, None, None)
        for number in range(NODES):
            world.engine.bring_back(f"n{number}")
            service.drain(ANN, f"n{number}", False)
        for job in list(world.plane.live):
            service.scale(ANN, job, None)
            service.resume(ANN, job)
        world.until(lambda: not world.plane.live, most_s=3000.0, by_s=10.0)
        assert all(world.line(job).state in ENDS for job in self.ids)


TestAnything = Anything.TestCase
TestAnything.settings = settings(
    max_examples=18, stateful_step_count=40, suppress_health_check=list(HealthCheck), print_blob=False
)
