"""Results that the leader computes for all workers (``job.evaluate``, ``job.from_leader``): a broadcast of JSON values.

They are kept by name, the latest ones only, as part of the state that newcomers take over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from elastane.train.worker.membership import Membership
from elastane.train.worker.script_collective import ScriptCollectives

_KEPT = 64


class LeaderResults:
    """The results that one worker knows."""

    def __init__(self, membership: Membership, collectives: ScriptCollectives) -> None:
        self.known: dict[str, Any] = {}
        self._membership = membership
        self._collectives = collectives

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The leader's result, on all workers; computed again by the next leader if this one is lost."""
        m, result, have = self._membership, None, False

        def prepare() -> None:
            nonlocal result, have
            if m.rank == 0 and not have:
                result, have = compute(), True

        def broadcast() -> None:
            value = result
            if m.group is not None:
                data = json.dumps(result).encode() if m.rank == 0 else None
                value = json.loads(m.group.broadcast_bytes(data, 0))
            self.known = {**dict(list(self.known.items())[1 - _KEPT :]), key: value}

        if not self._collectives.until(lambda: key in self.known, broadcast, prepare):
            return compute()
        return self.known[key]

    def replace(self, known: Mapping[str, Any]) -> None:
        """Take over the results of a worker that is ahead, or of a checkpoint."""
        self.known = dict(known)
