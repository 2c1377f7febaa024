"""What people can ask of the control plane, in every state a job can be in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from elastane.engines.contract import Cause
from elastane.errors import ElastaneError
from elastane.jobs.declared import Declared, Goal
from elastane.jobs.problems import SpecError
from elastane.jobs.states import State
from elastane.service.protocol import Conflict, NotFound
from elastane.service.store import StoreError
from elastane.service.wording import counted
from elastane.testing.engines.fake_work import Delays
from service.helpers import ANN, SPEC, World, started, world

SLOW = Delays(2.0, 2.0, 2.0)


# Submitting.


def test_a_repeated_key_is_the_same_job(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        first = w.run(w.service.submit(ANN, SPEC, "/tmp", "key"))
        again = w.run(w.service.submit(ANN, SPEC, "/tmp", "key"))
        assert (again.id, again.repeated) == (first.id, True)
        assert len(w.plane.live) == 1


def test_a_wrong_spec_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        with pytest.raises(SpecError, match="workers"):
            w.submit(workers=-1)
        assert not w.plane.live
        assert not w.store.jobs.active()


def test_what_nothing_would_act_upon_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        with pytest.raises(SpecError, match=r"^servers is not supported yet: parameter servers are known to"):
            w.submit(servers=2)
        assert not w.plane.live
        assert not w.store.jobs.active()


def test_what_an_owner_declares_reaches_the_engine_also_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        seen: list[Declared] = []
        ensure = w.engine.ensure
        monkeypatch.setattr(
            w.engine, "ensure", lambda wanted: (seen.append(wanted.launch.declared), ensure(wanted))
        )
        started(w, epochs=3, target={"metric": "accuracy", "value": 0.9})
        before = len(seen)
        w.crash()
        w.round()
        assert len(seen) > before > 0
        assert set(seen) == {Declared(3, Goal("accuracy", 0.9, "at-least"))}


def test_what_no_node_could_hold_is_refused_with_what_there_is(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        with pytest.raises(ElastaneError, match=r"workers\.min: 5 workers .* 4 slots on 2 nodes; .* at most 4"):
            w.submit(workers=5)
        with pytest.raises(
            ElastaneError, match=r"resources\.gpus: .* the largest node has 2; ask for at most 2"
        ):
            w.submit(resources={"gpus": 3})
        with pytest.raises(ElastaneError, match="accelerators: the cluster has cpu, not h100"):
            w.submit(accelerators=["h100"])


def test_a_job_is_not_refused_because_a_node_is_away_for_a_while(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        for node in ("n0", "n1"):
            w.engine.lose_node(node)
        job = w.submit(workers=4)
        w.pass_time(2.0)
        assert w.state(job) is State.QUEUED
        for node in ("n0", "n1"):
            w.engine.bring_back(node)
        w.until_state(job, State.RUNNING)


def test_workers_with_several_slots_take_them_all(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        wide = started(w, resources={"gpus": 2}, slots=2, samples=100_000, workers=1)
        other = started(w, samples=100_000, workers=2)
        assert set(w.engine.workers_of(wide)).isdisjoint(w.engine.workers_of(other))
        assert {n.id: n.used for n in w.service.nodes()} == {"n0": 2, "n1": 2}


# Cancelling.


def queued(w: World) -> str:
    started(w, kind="command", workers=2, samples=100_000)
    return w.submit()


def starting(w: World) -> str:
    job = w.submit()
    w.round()
    return job


def resizing(w: World) -> str:
    job = started(w, samples=100_000)
    w.service.scale(ANN, job, 1 if w.workers(job) == 2 else 2)
    w.round()
    return job


def suspending(w: World) -> str:
    job = started(w)
    w.service.suspend(ANN, job)
    return job


def suspended(w: World) -> str:
    job = suspending(w)
    w.until_state(job, State.SUSPENDED)
    return job


def retrying(w: World) -> str:
    job = started(w, retries=1)
    w.engine.fail(job)
    w.round()
    return job


WAYS = [
    (queued, State.QUEUED),
    (starting, State.STARTING),
    (started, State.RUNNING),
    (resizing, State.RESIZING),
    (suspending, State.SUSPENDING),
    (suspended, State.SUSPENDED),
    (retrying, State.QUEUED),
]


@pytest.mark.parametrize(("way", "state"), WAYS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_job_can_be_cancelled_in_every_state(
    tmp_path: Path, way: Callable[[World], str], state: State
) -> None:
    with world(tmp_path, nodes=1, delays=SLOW) as w:
        job = way(w)
        assert w.state(job) is state
        line = w.service.cancel(ANN, job)
        assert line.reason == "cancelled by ann"
        if line.state != "cancelled":
            w.service.cancel(ANN, job)  # harmless to repeat
        w.until_state(job, State.CANCELLED, most_s=10.0)
        assert w.engine.workers_of(job) == {}
        assert w.row(job).ended_s is not None
        with pytest.raises(Conflict, match="has ended"):
            w.service.cancel(ANN, job)


@pytest.mark.parametrize(("way", "state"), WAYS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_job_can_be_put_on_hold_in_every_state_and_stays_there_until_it_is_let_go(
    tmp_path: Path, way: Callable[[World], str], state: State
) -> None:
    with world(tmp_path, nodes=1, delays=SLOW) as w:
        job = way(w)
        assert w.service.suspend(ANN, job).held
        for other in w.plane.live.keys() - {job}:
            w.service.cancel(ANN, other)
        w.pass_time(20.0)
        assert w.state(job) in (State.QUEUED, State.SUSPENDED)
        w.crash()
        w.pass_time(2.0)
        assert w.line(job).held
        assert "on hold" in w.service.why(job).reason
        assert not w.service.resume(ANN, job).held
        w.until_state(job, State.SUCCEEDED, State.RUNNING)


def test_a_job_that_is_stopping_cannot_be_put_on_hold(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w)
        w.service.cancel(ANN, job)
        with pytest.raises(Conflict, match="cannot suspend a job that is stopping"):
            w.service.suspend(ANN, job)


def test_a_command_that_runs_cannot_be_saved(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, kind="command")
        with pytest.raises(Conflict, match="a command: it cannot be saved, only cancelled"):
            w.service.suspend(ANN, job)
        assert w.state(job) is State.RUNNING


def test_a_suspended_job_goes_on_from_where_it_was(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=5000, workers=1)
        w.pass_time(20.0)
        done = w.engine.done(job)
        w.service.suspend(ANN, job)
        w.until_state(job, State.SUSPENDED)
        w.service.resume(ANN, job)
        w.until_state(job, State.RUNNING)
        assert w.engine.done(job) >= done
        assert w.row(job).attempt == 2


# Size and place.


def test_a_pinned_size_stands_until_it_is_left_to_the_policy_again(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, samples=100_000)
        for workers in (3, 1, 2):
            assert w.service.scale(ANN, job, workers).pinned == workers
            w.pass_time(3.0)
            assert sum(w.engine.workers_of(job).values()) == workers
            w.pass_time(20.0)
            assert w.workers(job) == workers
        w.crash()
        w.pass_time(20.0)
        assert w.workers(job) == 2
        assert w.service.scale(ANN, job, None).pinned is None
        w.until(lambda: w.workers(job) == 4)


def test_a_size_outside_what_the_job_was_submitted_for_is_refused(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = w.submit(workers={"min": 2, "max": 3})
        for workers in (0, 1, 4):
            with pytest.raises(ElastaneError, match=f"for 2 to 3 workers, not {workers}"):
                w.service.scale(ANN, job, workers)
        with pytest.raises(ElastaneError, match="99 workers do not fit into the cluster's 4 slots"):
            w.service.scale(ANN, w.submit(), 99)
        with pytest.raises(ElastaneError, match="is a command, it keeps its 2 workers") as refused:
            w.service.scale(ANN, w.submit(kind="command", workers=2), 3)
        assert not isinstance(refused.value, Conflict)  # whoever asks has to ask for something else


def test_a_job_is_moved_to_a_node_and_stays_there_until_it_is_let_go(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, samples=100_000)
        w.service.scale(ANN, job, 1)
        w.until(lambda: sum(w.engine.workers_of(job).values()) == 1)
        for node in ("n1", "n0"):
            w.service.move(ANN, job, node)
            w.until(lambda node=node: w.engine.workers_of(job) == {node: 1})  # type: ignore[misc]
            w.pass_time(20.0)
            assert w.engine.workers_of(job) == {node: 1}
        w.service.resume(ANN, job)
        w.until(lambda: w.workers(job) == 4)
        assert w.row(job).attempt == 1


def test_a_job_that_is_moved_takes_along_as_many_workers_as_fit(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, samples=100_000)
        w.until(lambda: w.workers(job) == 4)
        w.service.move(ANN, job, "n1")
        w.until(lambda: w.engine.workers_of(job) == {"n1": 2}, most_s=5.0)
        assert w.row(job).attempt == 1


def test_a_size_that_is_too_much_for_now_waits_for_its_room(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        fixed = started(w, kind="command", workers=2)
        job = started(w, samples=100_000)
        held = w.workers(job)
        answer = w.service.scale(ANN, job, 4)
        said = f"it goes on with {counted(held, 'worker')} until 4 fit: "
        assert answer.reason.startswith(said)
        assert answer.reason.endswith(f"free, {fixed} has 2 and cannot be made to leave")
        assert [each.id for each in answer.waits_for] == [fixed]
        w.round()
        assert w.service.why(job).reason.startswith(said)
        w.until_state(fixed, State.SUCCEEDED)
        assert "suspend" not in w.causes(job)
        w.until(lambda: sum(w.engine.workers_of(job).values()) == 4)
        assert w.service.job(job).waits_for == []
        assert "the size its owner pinned" in w.service.why(job).reason


def test_a_size_that_there_is_room_for_is_not_waited_for(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=100_000)
        w.service.scale(ANN, job, 1)
        w.until(lambda: w.workers(job) == 1)
        assert w.service.scale(ANN, job, 2).reason == ""


def test_a_place_that_nobody_can_be_made_to_leave_is_waited_for_where_the_job_is(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        fixed = started(w, kind="command", workers=2)
        (node,) = w.engine.workers_of(fixed)
        job = started(w, samples=100_000, workers=1)
        answer = w.service.move(ANN, job, node)
        said = f"it goes on where it is until 1 worker fits on {node}: none of 2 slots is free, {fixed} has 2"
        said += " and cannot be made to leave"
        assert answer.reason == said
        assert [each.id for each in answer.waits_for] == [fixed]
        w.round()
        assert w.service.why(job).reason == said
        w.until_state(fixed, State.SUCCEEDED)
        assert "suspend" not in w.causes(job)
        w.until(lambda: w.engine.workers_of(job) == {node: 1})
        assert "where its owner put it" in w.service.why(job).reason


def test_a_job_that_waits_for_a_place_is_told_whose_it_is(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        fixed = [started(w, kind="command", workers=2) for _ in range(2)]
        (node,) = w.engine.workers_of(fixed[1])
        job = w.submit(samples=100_000)
        w.service.move(ANN, job, node)
        w.round()
        why = w.service.why(job)
        waits = f"it waits until 1 worker fits on {node}: none of 2 slots is free, {fixed[1]} has 2"
        assert why.reason == f"{waits} and cannot be made to leave"
        w.until(lambda: w.engine.workers_of(job) == {node: 1})


def test_a_move_makes_room_for_itself(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        other = started(w, samples=100_000, workers=2)
        (node,) = w.engine.workers_of(other)
        job = started(w, samples=100_000, workers=1)
        w.service.move(ANN, job, node)
        w.until(lambda: w.engine.workers_of(job) == {node: 1})
        w.until_state(other, State.RUNNING)


def test_a_move_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        wide = w.submit(workers=3)
        with pytest.raises(NotFound, match=r"no node n9 \(there are n0, n1\)"):
            w.service.move(ANN, wide, "n9")
        with pytest.raises(ElastaneError, match="node n0 has 2 slots, too few for 3 workers"):
            w.service.move(ANN, wide, "n0")
        w.service.cancel(ANN, wide)
        fixed = started(w, kind="command")
        with pytest.raises(Conflict, match="cannot be moved while it runs"):
            w.service.move(ANN, fixed, "n0")


def test_unknown_jobs_and_nodes_are_named(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        for ask in (w.service.job, w.service.why, w.service.life, w.service.owner_of):
            with pytest.raises(NotFound, match="there is no job j99"):
                ask("j99")
        with pytest.raises(NotFound, match="there is no job j99"):
            w.service.cancel(ANN, "j99")
        with pytest.raises(NotFound, match=r"no node n9 \(there are n0, n1\)"):
            w.service.drain(ANN, "n9", True)


# Quotas.


def test_a_tenant_at_its_quota_waits_and_is_told_so(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        w.service.set_quota(ANN, "small", 2, None, None)
        jobs = [w.submit(tenant="small", samples=2000) for _ in range(3)]
        w.until(lambda: sum(w.state(job) is State.RUNNING for job in jobs) == 2)
        w.pass_time(10.0)
        (waiting,) = [job for job in jobs if w.workers(job) == 0]
        assert w.service.why(waiting).reason == "tenant small is at its quota of 2 slots"
        assert w.service.quotas()[0].used == 2
        w.until_state(waiting, State.SUCCEEDED)


def test_a_quota_that_is_lowered_takes_back_what_is_too_much(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, tenant="small", samples=100_000)
        w.until(lambda: w.workers(job) == 4)
        w.service.set_quota(ANN, "small", 2, None, None)
        w.until(lambda: w.workers(job) == 2, most_s=2.0)
        w.service.set_quota(ANN, "small", 0, None, None)
        w.until_state(job, State.SUSPENDED)
        assert w.service.life(job)[-2].body["detail"] == "tenant small is at its quota of 0 slots"
        w.service.set_quota(ANN, "small", None, None, None)
        w.until_state(job, State.RUNNING)


# Policies.


def test_another_policy_decides_from_now_on_and_after_a_restart(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        assert w.service.set_policy(ANN, "tiresias").policy == "tiresias"
        job = started(w)
        w.crash()
        assert w.service.policy().policy == "tiresias"
        w.service.set_policy(ANN, "fifo(mode=fit)")
        w.until_state(job, State.SUCCEEDED)


def test_policies_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        for change in (w.service.set_policy, w.service.set_shadow):
            with pytest.raises(ElastaneError, match=r"unknown policy 'fivo'.*fifo"):
                change(ANN, "fivo")
            with pytest.raises(ElastaneError, match="simulations only"):
                change(ANN, "optimus-oracle")
        assert w.service.policy().policy == "elastane"
        assert w.service.policy().shadow is None


def test_a_shadow_says_what_it_would_have_done_and_does_nothing(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1) as w:
        w.service.set_shadow(ANN, "fifo")
        first = w.submit(workers=1, samples=100_000)
        w.round()
        info = w.service.policy()
        assert (info.shadow, info.shadow_decisions, info.shadow_differs) == ("fifo", 1, 0)
        w.service.scale(ANN, first, None)
        w.submit(workers=2, samples=1000)
        w.pass_time(1.0)
        w.service.set_policy(ANN, "fifo")
        w.service.set_shadow(ANN, "fifo(mode=fit)")
        third = w.submit(workers=1, samples=1000)
        w.round()
        info = w.service.policy()
        assert (info.shadow_decisions, info.shadow_differs) == (1, 1)
        assert info.shadow_last == f"{third}: 1 workers instead of 0"
        assert w.workers(third) == 0
        w.service.set_shadow(ANN, None)
        assert w.service.policy().shadow is None


# Storing.


def test_what_cannot_be_stored_has_not_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path) as w:
        job = started(w)
        before = w.live(job).row

        def full(where: str) -> None:
            if where == "transaction: before commit":
                raise StoreError("no space left on the disk")

        with monkeypatch.context() as patch:
            patch.setattr("elastane.service.store.database.reach", full)
            for change in (
                lambda: w.service.cancel(ANN, job),
                lambda: w.service.suspend(ANN, job),
                lambda: w.service.scale(ANN, job, 2),
            ):
                with pytest.raises(StoreError):
                    change()
                assert w.live(job).row == before
            with pytest.raises(StoreError):
                w.submit()
            assert list(w.plane.live) == [job]
        w.until_state(job, State.SUCCEEDED)


# Telling.


def test_lists_hold_what_was_asked_for(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        done = started(w, samples=100)
        w.until_state(done, State.SUCCEEDED)
        live = started(w, workers=1)
        assert [line.id for line in w.service.jobs("active")] == [live]
        assert [line.id for line in w.service.jobs("ended")] == [done]
        assert [line.id for line in w.service.jobs("all")] == [live, done]
        assert w.service.jobs("all", owner="bob") == []
        assert [line.id for line in w.service.jobs("all", limit=1)] == [live]
        assert w.service.info().jobs == {"running": 1, "succeeded": 1}
        gauges = w.service.gauges()
        assert (gauges["elastane_slots"], gauges["elastane_slots_used"]) == (4.0, 1.0)


def test_everything_about_a_job(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, samples=100_000, sync_s=0.02)
        w.until(lambda: w.workers(job) > 1)
        w.pass_time(10.0)
        detail = w.service.job(job)
        assert detail.training is not None
        assert detail.training.batch == 32
        assert len(detail.processes) == detail.workers
        (chosen,) = [point for point in detail.curve if point.chosen]
        assert chosen.workers == detail.workers
        assert {p.workers for p in detail.curve if p.measured} == set(w.live(job).learned.measured)
        assert [step.cause for step in detail.life][:3] == ["admit", "start", "started"]


def test_an_end_tells_its_cause(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w)
        w.engine.fail(job, Cause.OUT_OF_MEMORY, -9)
        w.round()
        line = w.service.job(job)
        assert (line.state, line.reason, line.code) == ("failed", "out of memory: exit code -9", -9)
        assert line.exit is not None
        assert line.exit.model_dump() == {"kind": "out of memory", "code": None, "signal": 9}
        assert w.service.why(job).reason == "out of memory: exit code -9"


@pytest.mark.parametrize("written", ["srtf", "elastane-oracle", "nosuch"])
def test_only_policies_that_can_decide_here_are_named(tmp_path: Path, written: str) -> None:
    with world(tmp_path) as w, pytest.raises(ElastaneError) as refused:
        w.service.set_shadow(ANN, written)
    known = str(refused.value).split("known here: ")[1]
    assert "elastane, " in f"{known.rstrip(')')}, "
    assert "srtf" not in known
    assert "oracle" not in known


@pytest.mark.parametrize(("limits", "told"), [(True, []), (False, ["its memory is counted but not limited"])])
def test_who_asks_for_memory_is_told_if_nobody_limits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: bool, told: list[str]
) -> None:
    with world(tmp_path) as w:
        monkeypatch.setattr(w.engine, "facts", lambda: {"limits_memory": limits})
        spec = {**SPEC, "resources": {"memory": "2GB"}}
        submitted = w.run(w.service.submit(ANN, spec, "/tmp", None))
        assert [warning.partition(":")[0] for warning in submitted.warnings] == told
        assert w.run(w.service.submit(ANN, SPEC, "/tmp", None)).warnings == []


# Kinds.


def test_a_rigid_job_is_saved_and_moved_but_keeps_its_size(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, kind="rigid", workers=2, samples=100_000)
        assert (w.line(job).kind, w.line(job).min_workers, w.line(job).max_workers) == ("rigid", 2, 2)
        assert "a rigid job has one size" in w.service.why(job).reason
        with pytest.raises(ElastaneError, match="is rigid, it keeps its 2 workers"):
            w.service.scale(ANN, job, 1)
        w.pass_time(200.0)
        assert w.workers(job) == 2
        w.service.move(ANN, job, "n1")
        w.until(lambda: w.engine.workers_of(job) == {"n1": 2})
        w.service.suspend(ANN, job)
        w.until_state(job, State.SUSPENDED)
        assert "saved" in w.causes(job)


def test_a_job_that_saves_nothing_is_called_a_command_everywhere(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        answer = w.run(w.service.submit(ANN, {**SPEC, "kind": "command"}, "/tmp", None))
        assert answer.warnings == [
            "it is a command: it is never moved or resized, and starts over if its node is lost"
        ]
        w.until_state(answer.id, State.RUNNING)
        assert w.line(answer.id).kind == "command"
        assert "a command has one size" in w.service.why(answer.id).reason
