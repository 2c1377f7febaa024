"""Parts of a control plane by themselves: a store, a fake engine, and jobs that hold what a test says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from elastane.cluster import Grant, Node
from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.crash_suspects import Suspects
from elastane.service.control.engine_driver import EngineDriver
from elastane.service.control.ledger import Ledger
from elastane.service.history import JobHistory
from elastane.service.store import JobRow, Store
from elastane.testing.engines.fake_engine import FakeEngine
from service.helpers import Clock


class Parts:
    """What other parts are made of; nothing here goes round by itself."""

    def __init__(self, home: Path) -> None:
        self.clock = Clock()
        self.engine = FakeEngine([Node("n0", 4, "cpu"), Node("n1", 4, "cpu")], self.clock)
        self.store = Store.open(home / "elastane.db", self.clock)
        self.store.claim()
        self.cluster = ClusterState(self.engine, self.store, self.clock)
        self.cluster.look()
        self.past = JobHistory(self.store)
        self.ledger = Ledger(self.store, self.past, self.cluster.accelerator, self.clock)
        self.driver = EngineDriver(self.engine, self.ledger, home)
        self.suspects = Suspects(home)

    def job(self, held: Grant | None = None, kind: str = "adaptive", workers: object = 1) -> LiveJob:
        """A job in the ledger that waits, or runs with what it holds."""
        row = self.stored(held, kind, workers)
        self.ledger.add(LiveJob.of(row))
        return self.ledger.live[row.id]

    def stored(self, held: Grant | None = None, kind: str = "adaptive", workers: object = 1) -> JobRow:
        """The same in the store only, as the last control plane left it."""
        with self.store.transaction() as t:
            row = t.jobs.add_job(
                name="x",
                owner="ann",
                tenant="default",
                spec={"command": ["train"], "workers": workers},
                directory="/tmp",
                kind=kind,
                state=State.QUEUED,
            )
            if held is not None:
                row = replace(row, state=State.RUNNING, grant=held, attempt=1, first_start_s=self.clock.now_s)
                t.jobs.save_job(row)
        return row

    def causes(self, job: LiveJob) -> list[str]:
        """What the event log says of it."""
        return [event.body["cause"] for event in self.store.log.events(job=job.id) if event.kind == "state"]


@contextmanager
def parts(home: Path) -> Iterator[Parts]:
    """For as long as a test needs them."""
    made = Parts(home)
    try:
        yield made
    finally:
        made.store._db.close()
