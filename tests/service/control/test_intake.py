"""Submissions that come together share a transaction, and nothing else: each is on disk when it is acknowledged."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastane.errors import ElastaneError
from elastane.service.messages import Submitted
from elastane.service.protocol import Conflict
from elastane.service.store import Store, failpoints
from service.helpers import ANN, SPEC, World, world


async def together(w: World, *keys: str, **spec: Any) -> list[Submitted | BaseException]:
    """Submissions of one moment."""
    asked = [w.service.submit(ANN, {**SPEC, **spec}, "/tmp", key) for key in keys]
    return await asyncio.gather(*asked, return_exceptions=True)


def ids(made: list[Submitted | BaseException]) -> list[str]:
    assert all(isinstance(one, Submitted) for one in made), made
    return [one.id for one in made if isinstance(one, Submitted)]


def commits(w: World, *keys: str) -> int:
    reached: list[str] = []
    with failpoints.watched(reached.append):
        w.run(together(w, *keys))
    return reached.count("transaction: after commit")


def test_those_that_come_together_share_one_write(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        assert commits(w, *(f"key-{i}" for i in range(20))) == 1
        assert len(w.store.jobs.active()) == len(w.plane.live) == 20


def test_each_has_its_key_its_event_and_its_entry_in_the_audit_log(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        jobs = ids(w.run(together(w, "a", "b", "c")))
        assert [w.store.jobs.job_of_key(ANN.user, key) for key in "abc"] == jobs
        assert [w.causes(job) for job in jobs] == [["admit"]] * 3
        log = w.store.accounts.audit_log()
        assert [(e.user, e.action, e.target, e.outcome) for e in log] == [
            (ANN.user, "submit_job", job, "ok") for job in jobs
        ]


def test_the_same_key_many_times_at_once_is_one_job(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        made = w.run(together(w, *["key"] * 50))
        assert len(set(ids(made))) == 1
        assert sum(not one.repeated for one in made) == 1
        assert len(w.store.jobs.active()) == 1


def test_one_that_cannot_be_stored_takes_none_of_the_others_with_it(tmp_path: Path) -> None:
    async def three(w: World) -> list[Submitted | BaseException]:
        odd = w.service.submit(ANN, SPEC, "/tmp/\ud800", "odd")
        good = [w.service.submit(ANN, SPEC, "/tmp", key) for key in ("a", "b")]
        return await asyncio.gather(good[0], odd, good[1], return_exceptions=True)

    with world(tmp_path) as w:
        first, odd, second = w.run(three(w))
        assert isinstance(odd, ElastaneError)
        assert {row.id for row in w.store.jobs.active()} == set(ids([first, second]))
        assert w.store.jobs.job_of_key(ANN.user, "odd") is None


def test_who_hangs_up_leaves_the_job_and_the_others(tmp_path: Path) -> None:
    async def impatient(w: World) -> list[Submitted | BaseException]:
        gone = asyncio.create_task(w.service.submit(ANN, SPEC, "/tmp", "gone"))
        await asyncio.sleep(0)
        gone.cancel()
        return await together(w, "gone", "there")

    with world(tmp_path) as w:
        again, _ = w.run(impatient(w))
        assert isinstance(again, Submitted)
        assert again.repeated
        assert len(w.store.jobs.active()) == 2


@pytest.mark.parametrize(
    "point", [f"transaction: {place}" for place in ("begun", "inside", "before commit", "after commit")]
)
def test_a_kill_leaves_all_of_a_group_or_nothing_and_all_that_was_acknowledged(
    tmp_path: Path, point: str
) -> None:
    """In a process of its own, which dies at the failpoint; what it acknowledged is one byte per job."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            w = World(tmp_path)
            os.write(writer, b"." * len(ids(w.run(together(w, "a", "b")))))
            with failpoints.watched(lambda name: os._exit(9) if name == point else None):
                os.write(writer, b"." * len(ids(w.run(together(w, "c", "d", "e")))))
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        acknowledged = len(pipe.read())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    store = Store.open(tmp_path / "elastane.db")
    kept = [store.jobs.job_of_key(ANN.user, key) for key in "abcde"]
    assert acknowledged == 2
    assert sum(job is not None for job in kept) == (5 if point.endswith("after commit") else 2)
    assert len(store.jobs.active()) == len(store.accounts.audit_log()) == sum(job is not None for job in kept)
    store.close()


def test_a_tenant_has_only_so_many_jobs_waiting(tmp_path: Path) -> None:
    async def asked(w: World, tenant: str, *keys: str) -> list[Submitted | BaseException]:
        who = replace(ANN, tenant=tenant)
        jobs = [w.service.submit(who, {**SPEC, "tenant": tenant}, "/tmp", key) for key in keys]
        return await asyncio.gather(*jobs, return_exceptions=True)

    with world(tmp_path, pending_per_tenant=3) as w:
        first = w.run(asked(w, "vision", "a", "b"))
        rest = w.run(asked(w, "vision", "c", "d", "e"))  # of one moment: the room is counted for them together
        assert len(ids([*first, rest[0]])) == 3
        for refused in rest[1:]:
            assert isinstance(refused, Conflict)
            assert "tenant vision has 3 jobs waiting and may have 3; wait" in str(refused)
        assert ids(w.run(asked(w, "speech", "a")))  # others are not concerned
        assert ids(w.run(asked(w, "vision", "a"))) == ids(first[:1])  # what was taken is answered as before
        w.until(lambda: any(job.holding for job in w.plane.live.values()))
        assert ids(w.run(asked(w, "vision", "f")))  # who runs does not wait
