"""What ended jobs leave in the store of the live system, and what new ones are told of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.models.estimate import Provenance
from elastane.models.history import load_pool
from elastane.models.history.files import to_plain
from elastane.policies.view import Info
from elastane.service.history import JobHistory, signature_of, split_command
from helpers.past_jobs import past_job
from service.helpers import World, started, world


def finished(w: World, **spec: object) -> str:
    job = started(w, **spec)
    w.until_state(job, State.SUCCEEDED)
    return job


def told(w: World, job: str) -> bool:
    return w.live(job).learned.memory is not None


def test_a_second_job_of_the_kind_is_known_before_it_starts(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, interval_s=5.0) as w:
        finished(w, samples=3200)
        busy = started(w, samples=64_000, tenant="other")
        job = w.submit(samples=3200)
        w.until(lambda: told(w, job))
        assert not told(w, busy)
        live = w.live(job)
        facts = live.view(live.facts(4, ("cpu",)), ~Info.NONE).facts
        assert facts.speed is not None
        assert facts.speed.source is Provenance.HISTORY
        assert facts.speed.max_profiled >= 1
        assert facts.remaining is not None
        assert facts.remaining.source is Provenance.HISTORY
        assert facts.remaining.mean == pytest.approx(3200, rel=0.3)


def test_its_own_measurements_take_over(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, interval_s=5.0) as w:
        finished(w, samples=3200)
        job = started(w, samples=64_000)
        w.until(lambda: bool(w.live(job).learned.measured) and told(w, job))
        w.pass_time(10.0)
        live = w.live(job)
        facts = live.view(live.facts(4, ("cpu",)), ~Info.NONE).facts
        assert facts.speed is not None
        assert facts.speed.source is Provenance.FITTED
        assert facts.remaining is not None
        assert facts.remaining.source is Provenance.DECLARED


def test_who_waits_is_told_when_the_first_of_the_kind_has_ended(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo") as w:
        first = started(w, samples=3200)
        second, third = w.submit(samples=3200), w.submit(samples=3200)
        w.pass_time(2.0)
        assert not told(w, second)
        w.until_state(first, State.SUCCEEDED)
        w.until(lambda: third in w.plane.live and told(w, third))


def test_what_was_learned_outlives_the_control_plane(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1) as w:
        finished(w, samples=3200)
        kept = list(w.plane.past.pool)
        w.crash()
        assert not w.plane.past.complete
        w.until(lambda: w.plane.past.complete)
        assert list(w.plane.past.pool) == kept


def test_tenants_learn_from_their_own_jobs_and_from_shared_ones(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo") as w:
        finished(w, tenant="a")
        busy = started(w, samples=10**6, name="other", command="python other.py", tenant="c")
        mine, other = w.submit(tenant="a"), w.submit(tenant="b")
        w.until(lambda: told(w, mine))
        w.pass_time(3.0)
        assert not told(w, other)
        w.service.cancel(replace_tenant(w, busy), busy)
        w.until_state(busy, State.CANCELLED)
        w.until_state(mine, State.SUCCEEDED)
        shared = w.submit(tenant="a", share_history=True)
        w.until_state(shared, State.SUCCEEDED)
        last = w.submit(tenant="b", samples=10**5)
        w.until(lambda: told(w, last))


def replace_tenant(w: World, job: str):  # type: ignore[no-untyped-def]
    from service.helpers import ANN

    return replace(ANN, tenant=w.row(job).tenant)


def test_a_job_that_taught_nothing_leaves_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = w.submit(workers=2)
        w.service.cancel(replace_tenant(w, job), job)
        w.round()
        assert w.state(job) is State.CANCELLED
        assert w.store.past.experiences() == []


def test_the_store_forgets_what_the_pool_has_no_room_for(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo") as w:
        w.plane.past.pool.most_alike = 2
        jobs = [finished(w) for _ in range(4)]
        assert [body["id"] for _, body in w.store.past.experiences()] == jobs[-2:]


def test_an_experience_that_cannot_be_read_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with world(tmp_path, nodes=1, slots=1) as w:
        job = finished(w)
        with w.store.transaction() as t:
            t.past.keep_experience(w.row(job).number, {"id": job, "signature": 3})
        past = JobHistory(w.store)
        with caplog.at_level(logging.WARNING):
            past.read_some()
        assert past.complete
        assert len(past.pool) == 0
        assert f"past job {job} is left out" in caplog.text


def test_a_large_pool_is_read_bit_by_bit(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        with w.store.transaction() as t:
            for number in range(7):
                row = t.jobs.add_job(
                    name="x", owner="ann", tenant="default", spec={}, directory="/", kind="rigid"
                )
                t.past.keep_experience(row.number, to_plain(past_job(number)))
        past = JobHistory(w.store)
        sizes = []
        while not past.complete:
            past.read_some(3)
            sizes.append(len(past.pool))
        assert sizes == [3, 6, 7]


def test_the_signature_tells_script_from_arguments(tmp_path: Path) -> None:
    with world(tmp_path, policy="fifo") as w:
        jobs = [
            w.submit(command=command)
            for command in ("python train.py --lr 1", "python train.py --lr 2", "python nets/train.py --lr 1")
        ]
        first, second, third = (signature_of(w.row(job), w.live(job).spec) for job in jobs)
        assert (first.script, first.app) == (second.script, second.app)
        assert first.config != second.config
        assert first.script != third.script
        assert first.config == third.config
    assert split_command(["torchrun", "-m", "nets.train", "x"]) == (["torchrun", "-m", "nets.train"], ["x"])
    assert split_command(["./run", "fast"]) == (["./run"], ["fast"])


def test_the_pool_is_exported_for_simulations(tmp_path: Path) -> None:
    from elastane.cli.history_files import export

    home, out = tmp_path / "home", tmp_path / "pool.json"
    with pytest.raises(ElastaneError, match="no live system"):
        export(out, home)
    with world(home, nodes=1, slots=1) as w:
        with pytest.raises(ElastaneError, match="taught anything"):
            export(out, home)
        job = finished(w)
        export(out, home)
        [past] = load_pool(out)
        assert past.id == job
        assert past == next(iter(w.plane.past.pool))
