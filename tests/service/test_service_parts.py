"""The parts of the live service, each built by itself; and the facade, which only binds them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from elastane.jobs.states import State
from elastane.service.cluster_commands import ClusterCommands
from elastane.service.cluster_queries import ClusterQueries
from elastane.service.control.core_sharing import Machines
from elastane.service.eta_waiting import ClusterNow
from elastane.service.expected_ends import ExpectedEnds
from elastane.service.job_commands import JobCommands
from elastane.service.job_queries import JobQueries
from elastane.service.live_service import LiveService
from elastane.service.protocol import Conflict, NotFound, Service
from elastane.service.store import StoreError
from elastane.service.why import Known
from service.helpers import ANN, World, started, world

VERBS = sorted(name for name in vars(Service) if not name.startswith("_"))


def job_queries(w: World) -> JobQueries:
    ground = ClusterNow(w.engine.nodes(), Machines(), w.clock())
    known = Known(w.plane.ledger, w.engine, w.plane.decisions, w.clock)
    ends = ExpectedEnds(lambda: w.plane.live, lambda: ground)
    return JobQueries(known, w.store, w.plane.cluster, w.settings.home, ends)


def job_commands(w: World) -> JobCommands:
    p = w.plane
    queries = job_queries(w)
    return JobCommands(p.ledger, w.store, w.engine, p.cluster, p.driver, p.release, p.poke, w.clock, queries)


def cluster_queries(w: World, *warnings: str) -> ClusterQueries:
    p = w.plane
    return ClusterQueries(
        w.settings,
        w.store,
        w.engine,
        p.ledger,
        p.cluster,
        p.decisions,
        p.scaler,
        p.changed,
        w.clock,
        lambda: warnings,
    )


def cluster_commands(w: World) -> ClusterCommands:
    p = w.plane
    return ClusterCommands(w.store, w.engine, p.cluster, p.decisions, p.scaler, p.poke, cluster_queries(w))


def test_queries_about_jobs_change_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job, waiting = started(w, samples=100_000, workers=4), w.submit(workers=2)
        part, before = job_queries(w), w.store.log.last_event_seq()
        assert [line.id for line in part.jobs("active")] == [job, waiting]
        assert part.jobs("active", owner="bob") == []
        assert part.job(job).state == "running"
        assert part.why(waiting).state == "queued"
        assert part.owner_of(waiting) == ("ann", "default")
        assert [event.job for event in part.life(waiting)] == [waiting]
        assert w.store.log.last_event_seq() == before
        with pytest.raises(NotFound, match="there is no job j99"):
            part.job("j99")


def test_a_command_on_a_job_is_stored_and_answered_by_the_queries(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = w.submit()
        part = job_commands(w)
        assert part.suspend(ANN, job).held
        assert w.row(job).held
        assert not part.resume(ANN, job).held
        assert part.cancel(ANN, job).state == "cancelled"
        with pytest.raises(Conflict, match="has ended"):
            part.suspend(ANN, job)


def test_a_command_that_cannot_be_stored_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> None:
        raise StoreError("the disk is full")

    with world(tmp_path) as w:
        job = started(w, samples=100_000)
        part = job_commands(w)
        monkeypatch.setattr(w.plane.ledger, "follow", full)
        with pytest.raises(StoreError):
            part.cancel(ANN, job)
        assert w.live(job).row.state is State.RUNNING
        assert w.state(job) is State.RUNNING


def test_queries_about_the_cluster_count_what_is_held(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        started(w, samples=100_000, workers=2)
        part = cluster_queries(w, "4 slots on 2 cores")
        info = part.info()
        assert (info.slots, info.nodes, info.warnings) == (4, 2, ["4 slots on 2 cores"])
        assert part.gauges()["elastane_slots_used"] == 2.0
        assert sum(node.used for node in part.nodes()) == 2
        assert part.policy().policy == w.plane.policy.label()


def test_a_command_on_the_cluster_is_stored_and_answered_by_the_queries(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        part = cluster_commands(w)
        assert part.drain(ANN, "n0", True).state == "draining"
        assert w.store.settings.get("draining") == ["n0"]
        assert part.drain(ANN, "n0", False).state == "up"
        with pytest.raises(NotFound, match="there is no node n9"):
            part.drain(ANN, "n9", True)
        assert part.set_policy(ANN, "fifo").policy.startswith("fifo")
        assert part.set_shadow(ANN, "tiresias").shadow is not None
        assert part.set_shadow(ANN, None).shadow is None
        quota = part.set_quota(ANN, "vision", 3, None, False)
        assert (quota.slots, quota.weight, quota.lends, quota.used) == (3, 1.0, False, 0)


@pytest.mark.parametrize("verb", VERBS)
def test_the_facade_binds_every_verb_of_the_protocol_as_it_is_written_there(verb: str, tmp_path: Path) -> None:
    with world(tmp_path) as w:
        bound = inspect.signature(getattr(LiveService(w.plane), verb)).parameters.values()
    _, *written = inspect.signature(getattr(Service, verb)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in bound] == [(p.name, p.kind, p.default) for p in written]
