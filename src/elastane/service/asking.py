"""The control plane as its API sees it: checks what is asked, stores it, and answers.

``looking`` has the questions, ``steering`` the changes; here jobs are handed in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError
from elastane.jobs import JobSpec, parse_spec
from elastane.jobs.kinds import Kind
from elastane.jobs.loading import dump_json
from elastane.service.control import ControlPlane
from elastane.service.facade import Principal
from elastane.service.intake import Intake, NewJob
from elastane.service.messages import (
    Submitted,
)
from elastane.service.steering import Steering
from elastane.service.store.rows import JobRow


class LiveService(Steering):
    """Implements ``facade.Service`` over a control plane."""

    def __init__(self, plane: ControlPlane, warnings: Sequence[str] = ()) -> None:
        super().__init__(plane, warnings)
        self._intake = Intake(plane)

    async def submit(
        self, who: Principal, spec: Mapping[str, Any], directory: str, key: str | None
    ) -> Submitted:
        """Check, store, answer."""
        known = await self._of_key(who.user, key) if key else None
        if known is not None:
            return Submitted(id=known.id, name=known.name, repeated=True)
        row = await self._intake.take(self._looked_at(who, spec, directory, key))
        return Submitted(id=row.id, name=row.name, warnings=self._doubts(row.kind))

    async def _of_key(self, user: str, key: str) -> JobRow | None:
        """What this request key stands for; of two that come at once the second waits for the first."""
        under_way = self._intake.under_way(user, key)
        if under_way is not None:
            return await asyncio.shield(under_way)
        job = self._store.job_of_key(user, key)
        return None if job is None else self._row(job)

    def _looked_at(self, who: Principal, spec: Mapping[str, Any], directory: str, key: str | None) -> NewJob:
        wanted = self._checked(who, spec)
        place = str((Path(directory) / wanted.workdir).resolve()) if wanted.workdir else directory
        looked = self._plane.engine.examine(wanted.kind.value, wanted.command, place, dict(wanted.env))
        if looked.missing:
            raise ElastaneError(f"command: {looked.missing}")
        most = wanted.workers.max
        if wanted.kind is Kind.AUTO and looked.kind == "rigid" and most not in (None, wanted.workers.min):
            looked = replace(looked, why=f"{looked.why}; it keeps its {wanted.workers.min} workers")
        return NewJob(who.user, key, wanted, json.loads(dump_json(wanted)), place, looked.kind, looked.why)

    def _checked(self, who: Principal, values: Mapping[str, Any]) -> JobSpec:
        given = dict(values)
        given.setdefault("tenant", who.tenant)
        spec = parse_spec(given)
        # A node that is away for a while is no reason to refuse a job.
        nodes = self._plane.known_nodes().values()
        types = sorted({node.gpu_type for node in nodes})
        fitting = [n for n in nodes if not spec.accelerators or n.gpu_type in spec.accelerators]
        if not fitting:
            raise ElastaneError(
                f"accelerators: the cluster has {', '.join(types)}, not {', '.join(spec.accelerators)}"
            )
        per_worker = max(spec.worker.gpus, 1e-9)
        room = sum(int(node.gpus / per_worker + 1e-9) for node in fitting)
        if room < spec.workers.min:
            slots = sum(node.gpus for node in fitting)
            raise ElastaneError(
                f"workers.min: {spec.workers.min} workers with {spec.worker.gpus:g} slots each do not fit into "
                f"the cluster's {slots} slots on {len(fitting)} nodes; ask for at most {room}"
            )
        return spec

    def _doubts(self, kind: str) -> list[str]:
        if kind == "rigid":
            return ["it is rigid: it is never moved or resized, and starts over if its node is lost"]
        return []
