"""A live run that was recorded is decided again, byte for byte, from what the store holds (``elastane replay``)."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from elastane.policies.registry import live_names, make_policy
from elastane.scheduling.record import decide_again, plain, view_from_json, view_to_json
from elastane.service.store import Store
from service.helpers import ANN, World, world

SHORT_ROUNDS = {"gavel": "gavel(round_s=15)"}
POLICIES = [
    *(SHORT_ROUNDS.get(name, name) for name in live_names()),
    "easy(kill_on_overrun=true)",
    "fifo(mode=fit)",
]
"""All that can decide live, whoever registered them; and what options change about verdicts and order."""


def busy_hour(w: World, seed: int) -> None:
    """Jobs of all kinds come and go, are put on hold and pinned, and a node is lost for a while."""
    rng = Random(seed)
    jobs: list[str] = []
    for turn in range(24):
        if rng.random() < 0.5:
            jobs.append(w.submit(**random_job(rng)))
        there = [job for job in jobs if job in w.plane.live and not w.live(job).leaving]
        if there and rng.random() < 0.2:
            w.service.scale(ANN, rng.choice(there), None)
        if turn == 8:
            w.engine.lose_node("n1")
        if turn == 12:
            w.engine.bring_back("n1")
        w.pass_time(rng.choice((1.0, 5.0, 20.0)), by_s=5.0)


def random_job(rng: Random) -> dict[str, object]:
    kind = rng.choice(("adaptive", "adaptive", "resizable", "command"))
    least = rng.randint(1, 2)
    workers = least if kind == "command" else {"min": least, "max": least + rng.randint(0, 4)}
    return {
        "kind": kind,
        "workers": workers,
        "samples": rng.choice((1_000, 10_000, 100_000)),
        "sync_s": rng.choice((0.0, 0.05)),
        "tenant": rng.choice("ab"),
        "priority": rng.randint(0, 2),
    }


@pytest.mark.parametrize("written", POLICIES)
def test_every_recorded_decision_is_made_again_byte_for_byte(tmp_path: Path, written: str) -> None:
    with world(tmp_path, slots=4, policy=written, interval_s=15.0, seed=7) as w:
        busy_hour(w, seed=len(written))
    store = Store.open(tmp_path / "elastane.db")  # as somebody who comes later finds it
    try:
        last = store.log.last_decision_seq()
        recorded = list(store.log.decisions(0, last))
    finally:
        store.close()
    assert len(recorded) >= (3 if written.startswith("gavel") else 8)  # it changes little in its long rounds
    for decision in recorded:
        again = decide_again(make_policy(decision.policy), decision.view)
        assert json.dumps(again) == json.dumps(decision.plan), f"decision {decision.seq}"
        assert plain(view_to_json(view_from_json(decision.view))) == decision.view
