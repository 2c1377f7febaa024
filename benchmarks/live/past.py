"""A store with a long past, as years of use would leave it."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from elastane.jobs import parse_spec
from elastane.jobs.states import State
from elastane.service.home import DATABASE
from elastane.service.store import Store

_PER_TRANSACTION = 500
_LIFE = (State.SUBMITTED, State.QUEUED, State.STARTING, State.RUNNING, State.SUCCEEDED)


def write_past(home: Path, jobs: int) -> None:
    """So many jobs that have succeeded, each with the events of its life."""
    store = Store.open(home / DATABASE)
    store.claim()
    spec = parse_spec({"command": "python train.py --lr 0.1", "kind": "command"}).model_dump(
        mode="json", by_alias=True
    )
    for first in range(0, jobs, _PER_TRANSACTION):
        with store.transaction() as t:
            for number in range(first, min(jobs, first + _PER_TRANSACTION)):
                row = t.jobs.add_job(
                    name=f"old-{number}",
                    owner="admin",
                    tenant="default",
                    spec=spec,
                    directory="/",
                    kind="command",
                    state=State.QUEUED,
                )
                now_s = time.time()
                t.jobs.save_job(
                    replace(row, state=State.SUCCEEDED, attempt=1, ended_s=now_s, service_gpu_s=60.0)
                )
                for before, after in pairwise(_LIFE):
                    t.log.append_event("state", row.id, {"from": before.value, "to": after.value, "attempt": 1})
    store.close()
