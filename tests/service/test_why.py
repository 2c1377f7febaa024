"""Why a job waits: one line that is true, the numbers behind it, and what would really help."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastane.jobs.states import State
from elastane.service.messages import Why
from elastane.testing.engines.fake_work import Delays
from service.helpers import ANN, World, raises, started, world


def just_arrived(w: World) -> str:
    return w.submit()


def on_hold(w: World) -> str:
    job = w.submit()
    w.service.suspend(ANN, job)
    return job


def failed(w: World) -> str:
    job = started(w, retries=1)
    w.engine.fail(job)
    return job


def at_quota(w: World) -> str:
    w.service.set_quota(ANN, "default", 1, None, None)
    started(w, samples=100_000)
    return w.submit()


def command_at_quota(w: World) -> str:
    w.service.set_quota(ANN, "default", 1, None, None)
    started(w, samples=100_000)
    return w.submit(kind="command")


def place_not_empty(w: World) -> str:
    leaving = started(w, samples=100_000, workers=4)
    w.service.suspend(ANN, leaving)
    return w.submit(workers=4)


def full(w: World) -> str:
    started(w, kind="command", workers=4, samples=100_000)
    return w.submit()


def too_wide(w: World) -> str:
    started(w, kind="command", workers=3, samples=100_000)
    return w.submit(workers=2)


def no_room(w: World) -> str:
    started(w, samples=100_000, workers={"min": 3, "max": 3}, priority=5)
    return w.submit(workers=2)


def nodes_away(w: World) -> str:
    w.engine.lose_node("n1")
    return w.submit(workers=3)


REASONS = [
    (on_hold, "its owner put it on hold; 'elastane resume' lets it go on"),
    (failed, "it failed and is tried again in 2 s"),
    (at_quota, "tenant default is at its quota of 1 slot"),
    (
        command_at_quota,
        "tenant default is at its quota of 1 slot; commands never borrow what others leave free",
    ),
    (full, "needs 1 slot, none can be had while j1 runs, which cannot be suspended"),
    (too_wide, "needs 2 slots, 1 can be had while j1 runs, which cannot be suspended"),
    (no_room, "needs 2 slots, 1 of 4 is free; to make room now would cost the others more than it gains"),
    (nodes_away, "needs 3 slots of one type, at most 2 that it may use exist"),
]


def asked(w: World, job: str, *, instead: bool = False) -> Why:
    why = w.service.why(job, instead=instead)
    for line in (why.reason, *why.advice, *(i.change + i.starts for i in why.instead)):
        assert line
        assert "\n" not in line
    held = sum(w.workers(j) for j in w.plane.live)
    assert why.numbers["slots_free"] == why.numbers["slots"] - held
    assert why.numbers["workers"] == w.workers(job)
    return why


@pytest.mark.parametrize(("way", "reason"), REASONS, ids=lambda x: getattr(x, "__name__", ""))
def test_every_reason_to_wait_is_one_line_with_numbers(
    tmp_path: Path, way: Callable[[World], str], reason: str
) -> None:
    with world(tmp_path, delays=Delays(leave_s=50.0)) as w:
        job = way(w)
        w.round()
        why = asked(w, job)
        assert w.workers(job) == 0
        assert why.reason == reason
        assert why.state == w.state(job).value
        holders = {j.id for j in w.plane.live.values() if j.row.grant is not None}
        assert {ahead.id for ahead in why.ahead} == holders


def test_a_job_that_has_just_arrived_is_told_so(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        assert "just arrived" in asked(w, just_arrived(w)).reason


def test_a_job_whose_place_is_not_empty_yet_is_told_so(tmp_path: Path) -> None:
    with world(tmp_path, delays=Delays(leave_s=50.0)) as w:
        job = place_not_empty(w)
        w.round()
        assert w.state(job) is State.QUEUED
        assert asked(w, job).reason


@pytest.mark.parametrize("policy", ["fifo", "fifo(mode=fit)", "easy", "srtf", "tiresias", "drf", "pollux"])
def test_every_policy_says_why(tmp_path: Path, policy: str) -> None:
    with world(tmp_path, policy=policy) as w:
        started(w, kind="command", workers=3, samples=100_000)
        job = w.submit(workers=2)
        w.pass_time(1.0)
        assert asked(w, job).reason not in ("", "its policy left it out of the plan")


def test_a_job_that_runs_is_told_why_it_has_its_size(tmp_path: Path) -> None:
    with world(tmp_path, delays=Delays(leave_s=5.0)) as w:
        job = started(w, samples=100_000)
        assert "do the most good" in asked(w, job).reason
        w.service.scale(ANN, job, 1)
        assert "1 worker, the size its owner pinned" in asked(w, job).reason
        w.service.move(ANN, job, "n0")
        assert "on n0, where its owner put it" in asked(w, job).reason
        w.service.suspend(ANN, job)
        assert "saving its work" in asked(w, job).reason
        fixed = started(w, kind="command")
        assert "a command has one size" in asked(w, fixed).reason


def test_a_job_that_has_ended_is_told_how(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        done, gone = started(w, samples=100), started(w)
        w.service.cancel(ANN, gone)
        w.until_state(gone, State.CANCELLED)
        w.until_state(done, State.SUCCEEDED)
        assert w.service.why(done).reason == "it has succeeded"
        assert w.service.why(gone).reason == "cancelled by ann"


def test_advice_counts_workers_and_not_slots(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=8) as w:
        started(w, kind="command", workers=5, samples=100_000)
        job = w.submit(workers={"min": 3, "max": 4}, resources={"gpus": 2}, slots=2)
        w.round()
        assert "with 1 worker at least instead of 3" in asked(w, job).advice[0]


SITUATIONS: list[dict[str, Any]] = [
    {"taken": 3, "workers": {"min": 2, "max": 4}},
    {"taken": 2, "workers": {"min": 3, "max": 4}},
    {"taken": 4, "workers": {"min": 2, "max": 2}},
    {"taken": 1, "workers": {"min": 4, "max": 4}},
]


@pytest.mark.parametrize("policy", ["elastane", "fifo", "fifo(mode=fit)", "pollux"])
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: f"{s['taken']}-{s['workers']['min']}")
def test_what_would_help_really_would(tmp_path: Path, policy: str, situation: dict[str, Any]) -> None:
    with world(tmp_path, policy=policy) as w:
        started(w, kind="command", workers=situation["taken"], samples=100_000)
        job = w.submit(workers=situation["workers"])
        w.round()
        assert w.workers(job) == 0
        offers = asked(w, job, instead=True).instead
        assert offers
        w.service.cancel(ANN, job)
        for offer in offers:
            least = situation["workers"]["min"]
            changed = int(offer.change.split()[0]) if " at least instead of " in offer.change else least
            priority = 1 if "priority" in offer.change else 0
            again = w.submit(workers={**situation["workers"], "min": changed}, priority=priority)
            w.round()
            assert (w.workers(again) > 0) == offer.helps
            assert not offer.helps or f"with {w.workers(again)} worker" in offer.starts
            w.service.cancel(ANN, again)
            w.until(lambda again=again: again not in w.plane.live)  # type: ignore[misc]


def test_a_policy_that_crashes_is_no_answer_and_no_error(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = full(w)
        w.round()
        w.plane.decisions.use_policy(raises(ValueError("no")))
        offers = asked(w, job, instead=True).instead
        assert {offer.starts for offer in offers} == {"unknown: policy strange crashed: ValueError: no"}


def everything_said_of(w: World, job: str) -> str:
    lines = [w.service.job(job), *w.service.jobs("all", tenant="b")]
    bare = [line.model_copy(update={"waits_for": []}) for line in lines]  # that is masked for each caller
    why = w.service.why(job, instead=True).model_copy(update={"ahead": []})
    life = w.service.life(job)
    return "\n".join(message.model_dump_json() for message in (*bare, why, *life))


@pytest.mark.parametrize("policy", ["elastane", "fifo", "easy", "srtf"])
def test_no_sentence_names_a_job_of_another_tenant(tmp_path: Path, policy: str) -> None:
    bob = replace(ANN, user="bob", tenant="b")
    with world(tmp_path, policy=policy, interval_s=5.0) as w:
        theirs = [started(w, kind="command", workers=2, tenant="a", samples=100_000)]
        ours = started(w, tenant="b", workers=1, samples=100_000)
        theirs += [w.submit(tenant="a", workers=4) for _ in range(2)]
        waiting = [w.submit(tenant="b", workers=4), w.submit(tenant="b", kind="command", workers=2)]
        (node,) = w.engine.workers_of(theirs[0])
        w.service.move(bob, ours, node)
        w.pass_time(3.0)
        said = "".join(everything_said_of(w, job) for job in (ours, *waiting))
        assert "of another tenant" in said or "of other tenants" in said
        for job in theirs:
            assert not re.search(rf"\b{job}\b", said), said
