"""A control plane over a fake engine, in a time that passes only when a test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from elastane.cluster import Node
from elastane.engines.contract import Wanted
from elastane.jobs.states import State
from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import Fifo
from elastane.policies.plan import Plan
from elastane.policies.view import View
from elastane.service.control.active_job import LiveJob
from elastane.service.control.plane import ControlPlane, ControlSettings
from elastane.service.live_service import LiveService
from elastane.service.messages import JobSummary
from elastane.service.protocol import Principal
from elastane.service.store import JobRow, Store
from elastane.testing.engines.fake_engine import FakeEngine
from elastane.testing.engines.fake_nodes import FakePool
from elastane.testing.engines.fake_work import Delays
from elastane.train.reports.events import Stepped

ANN = Principal("ann", "user", "default")
SPEC = {"command": "python train.py"}
DELAYS = Delays()
ENDS = {"succeeded", "failed", "cancelled", "rejected"}


class Clock:
    """Stands still until it is moved."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class Crash(BaseException):
    """The control plane dies here; nothing may catch it."""


class CrashingEngine(FakeEngine):
    """Can make the control plane die while it tells the engine what it wants."""

    crash_in: int | None = None
    """After so many wishes more; None never."""

    def ensure(self, wanted: Wanted) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.crash_in = None
                raise Crash
        super().ensure(wanted)


class World:
    """Nodes with slots, a store, and a control plane that lives from ``round`` to ``round``."""

    def __init__(
        self,
        home: Path,
        *,
        nodes: int = 2,
        slots: int = 2,
        policy: str = "elastane",
        delays: Delays = DELAYS,
        machines: Sequence[Node] | None = None,
        pools: Mapping[str, FakePool] | None = None,
        speeds: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> None:
        self.clock = Clock()
        there = machines if machines is not None else [Node(f"n{i}", slots, "cpu") for i in range(nodes)]
        self.engine = CrashingEngine(there, self.clock, delays, pools=pools, speeds=speeds)
        self.settings = ControlSettings(home, policy, **settings)
        self._runner = asyncio.Runner()
        self._open()

    def _open(self) -> None:
        self.store = Store.open(self.settings.home / "elastane.db", self.clock)
        # Nobody cuts the power in a test, and waiting for the disk is most of its time.
        self.store._db._connection.exec_driver_sql("PRAGMA synchronous=OFF")
        self.plane = ControlPlane(self.settings, self.store, self.engine, self.clock)
        self.service = LiveService(self.plane)
        self._runner.run(self.plane.take_up())

    def crash(self) -> None:
        """The control plane is gone without a word, and another one takes its place."""
        self.store._db.close()
        self._open()

    def end(self) -> None:
        self.store._db.close()
        self._runner.close()

    def run(self, what: Any) -> Any:
        """Await something."""
        return self._runner.run(what)

    # Time.

    def round(self) -> None:
        self._runner.run(self.plane.round())

    def pass_time(self, seconds: float = 1.0, by_s: float = 1.0) -> None:
        """Rounds, and time between them; a last round for what that led to."""
        self.round()
        end_s = self.clock.now_s + seconds
        while self.clock.now_s < end_s:
            self.clock.now_s = min(end_s, self.clock.now_s + by_s)
            self.round()

    def until(self, what: Callable[[], bool], most_s: float = 1000.0, by_s: float = 1.0) -> None:
        """Let time pass until something is so."""
        end_s = self.clock.now_s + most_s
        self.round()
        while not what():
            assert self.clock.now_s < end_s, "it has not happened"
            self.pass_time(by_s, by_s)

    # Jobs.

    def submit(self, **spec: Any) -> str:
        """An adaptive job of 32 s on one worker; ``samples``, ``sync_s`` … say otherwise."""
        job = self.run(self.submitting(**spec))
        assert isinstance(job, str)
        return job

    async def submitting(self, **spec: Any) -> str:
        """The same, for those who wait for other things too."""
        facts = {
            f"FAKE_{name.upper()}": str(spec.pop(name))
            for name in ("samples", "batch", "sample_s", "sync_s", "slots")
            if name in spec
        }
        who = replace(ANN, tenant=spec.pop("tenant", "default"))
        return (await self.service.submit(who, {**SPEC, "env": facts, **spec}, "/tmp", None)).id

    def row(self, job: str) -> JobRow:
        """As it is stored."""
        row = self.store.jobs.job(job)
        assert row is not None
        return row

    def state(self, job: str) -> State:
        return self.row(job).state

    def live(self, job: str) -> LiveJob:
        return self.plane.live[job]

    def line(self, job: str) -> JobSummary:
        return self.service.job(job)

    def workers(self, job: str) -> int:
        """Granted."""
        grant = self.row(job).grant
        return grant.workers if grant else 0

    def causes(self, job: str) -> list[str]:
        """What happened to it."""
        return [event.body["cause"] for event in self.service.life(job) if event.kind == "state"]

    def until_state(self, job: str, *states: State, most_s: float = 1000.0) -> None:
        self.until(lambda: self.state(job) in states, most_s)


@contextmanager
def world(home: Path, **how: Any) -> Iterator[World]:
    made = World(home, **how)
    try:
        yield made
    finally:
        made.end()


def plain(row: JobRow) -> JobRow:
    """The row as it comes out of the store, without what is stored only now and then."""
    spec = json.loads(json.dumps(row.spec))
    return replace(row, spec=spec, training={}, profile={}, seen=0)


def started(w: World, **spec: Any) -> str:
    """A job that runs."""
    job = w.submit(**spec)
    w.until_state(job, State.RUNNING)
    return job


@dataclass(frozen=True)
class Strange(Policy):
    """Does what a test says."""

    answer: Callable[[View], Plan] = field(default=lambda view: Fifo().decide(view))

    name: ClassVar[str] = "strange"
    title: ClassVar[str] = "Strange"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs()

    def decide(self, view: View) -> Plan:
        return self.answer(view)

    def label(self) -> str:
        return "strange"


def raises(error: BaseException) -> Strange:
    def answer(view: View) -> Plan:
        raise error

    return Strange(answer)


def window(at_s: float, fraction: float | None, workers: int = 1, **times: float) -> Stepped:
    """A window of training with batch 32."""
    shares = {"compute_s": 0.32 / workers, "sync_s": 0.0, **times}
    return Stepped(
        at_s,
        step=int(at_s),
        epoch=0,
        workers=workers,
        batch=32,
        steps=1,
        step_s=0.3,
        progress=at_s,
        fraction=fraction,
        per_worker=-(-32 // workers),
        **shares,
    )
