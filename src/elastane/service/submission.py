"""Takes jobs in for people: a submission is checked, stored together with its request key, and answered."""

from __future__ import annotations

import asyncio
import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from elastane.cluster import Node
from elastane.engines.contract import Code, Engine, Package, Shared
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.package_places import code_to_json, package
from elastane.engines.shared_place import refusal
from elastane.errors import ElastaneError
from elastane.jobs import JobSpec
from elastane.jobs.kinds import Kind
from elastane.jobs.loading import dump_json
from elastane.jobs.unsupported import submitted_spec
from elastane.kit.storage_urls import JOB, joined, same
from elastane.service.control.active_job import LiveJob
from elastane.service.control.intake import Intake, NewJob
from elastane.service.messages import PackagedCode, SentCode, SharedCode, Submitted
from elastane.service.packages import Packages
from elastane.service.protocol import Principal
from elastane.service.run_kinds import COMMAND_RUN, run_kind
from elastane.service.spec_inspection import as_looked_at
from elastane.service.store import Store
from elastane.service.store.rows import JobRow
from elastane.service.wording import counted


class Submission:
    """Lets in what the engine can run: ``intake`` stores it, ``store`` knows request keys of before."""

    def __init__(
        self,
        intake: Intake,
        store: Store,
        engine: Engine,
        packages: Packages,
        checkpoints: str = "",
        live: Callable[[], Iterable[LiveJob]] = tuple,
        home: Path = Path(),
    ) -> None:
        """``checkpoints`` is where jobs save that name no place; ``home`` has their folders if it is empty."""
        self._intake, self._store, self._engine, self._packages = intake, store, engine, packages
        self._checkpoints, self._live, self._runs = checkpoints, live, Layout(home).jobs

    async def submit(
        self,
        who: Principal,
        spec: Mapping[str, Any],
        directory: str,
        key: str | None,
        code: SentCode | None = None,
    ) -> Submitted:
        """Check a spec, store the job, and answer; a request key that was used before answers with its job."""
        known = await self._of_key(who.user, key) if key else None
        if known is not None:
            return Submitted(id=known.id, name=known.name, repeated=True)
        new = await self._looked_at(who, spec, directory, key, code)
        known = await self._of_key(who.user, key) if key else None  # the same may have come meanwhile
        if known is not None:
            return Submitted(id=known.id, name=known.name, repeated=True)
        row = await self._intake.take(new)
        warnings = [*new.warnings, *self._doubts(row.kind, new.spec)]
        return Submitted(id=row.id, name=row.name, warnings=warnings)

    async def _of_key(self, user: str, key: str) -> JobRow | None:
        """The job that a request key stands for; of two requests at once the second waits for the first."""
        under_way = self._intake.under_way(user, key)
        if under_way is not None:
            return await asyncio.shield(under_way)
        job = self._store.jobs.job_of_key(user, key)
        return None if job is None else self._store.jobs.job(job)

    async def _looked_at(
        self, who: Principal, spec: Mapping[str, Any], directory: str, key: str | None, code: SentCode | None
    ) -> NewJob:
        given = submitted_spec({"tenant": who.tenant, **spec})
        # Not resolved: that would look at disks that may not answer.
        place = os.path.abspath(Path(directory) / given.workdir) if given.workdir else directory  # noqa: PTH100
        chosen = _code_of(code, place)
        # Of a package that is looked at which will run, not what its owner may have changed meanwhile.
        command, here, variables = tuple(given.command), place, given.variables
        if isinstance(chosen, Package):
            command, here, variables = await self._packages.run_of(chosen, command, variables)
        looked = await self._engine.examine(
            run_kind(given.kind), command, here, variables, given.python, owner=who.user
        )
        wanted, warnings = as_looked_at(given, looked)
        self._check(wanted)
        wanted = self._placed(wanted)
        if looked.kind == Kind.ADAPTIVE and wanted.checkpoints is None:
            self._check_disk()
        if looked.missing:
            raise ElastaneError(f"command: {looked.missing}")
        values = json.loads(dump_json(wanted))
        come_from = code_to_json(chosen) if chosen is not None else None
        return NewJob(who.user, key, wanted, values, place, looked.kind, looked.why, warnings, come_from)

    def _placed(self, spec: JobSpec) -> JobSpec:
        """The spec with a place for checkpoints that is the job's own, for good: wherever later jobs save.

        Raises:
            ElastaneError: it names one where another job's lie.
        """
        place = spec.checkpoints
        if place is None:
            # More than the id: a system that has lost its home counts from 1 again.
            own = joined(self._checkpoints, f"{JOB}-{secrets.token_hex(4)}")
            return spec.model_copy(update={"checkpoints": own}) if self._checkpoints else spec
        for job in self._live() if JOB not in place else ():
            if job.spec.checkpoints is not None and same(job.spec.checkpoints, place):
                raise ElastaneError(
                    f"checkpoints: those of job {job.id}, which has not ended, lie at {place}; "
                    f"name another place, as with {joined(place, JOB)}"
                )
        return spec

    def _check_disk(self) -> None:
        """Refuse a job that would save in its run folder while there are nodes that could not read that."""
        facts = self._engine.node_facts()
        known = (name for name in self._engine.known_nodes() if name in facts)
        blind = sorted(name for name in known if facts[name].blind and not facts[name].unfit)
        if blind:
            raise ElastaneError(refusal(self._runs, tuple(blind)))

    def _check(self, spec: JobSpec) -> None:
        """Refuse a job that the cluster could not run even if it were empty."""
        # A node that is away for a while, or one that a pool may still give, is no reason to refuse a job.
        nodes = [*self._engine.known_nodes().values(), *self._to_come()]
        types = list(dict.fromkeys(sorted(node.gpu_type for node in nodes)))
        fitting = [n for n in nodes if not spec.accelerators or n.gpu_type in spec.accelerators]
        if not fitting:
            raise ElastaneError(
                f"accelerators: the cluster has {', '.join(types)}, not {', '.join(spec.accelerators)}"
            )
        alike = [[n for n in fitting if n.gpu_type == kind] for kind in types]
        most = max(alike, key=lambda group: _room(group, spec))  # its workers never get two types at once
        if _room(most, spec) < spec.workers.min:
            raise ElastaneError(_too_much(spec, most, _room(most, spec)))

    def _to_come(self) -> list[Node]:
        """Nodes that pools may give beyond those that are there."""
        return [pool.node for pool in self._engine.pools().values() for _ in range(pool.most - pool.now)]

    def _doubts(self, kind: str, spec: JobSpec) -> list[str]:
        doubts = []
        if kind == COMMAND_RUN:
            doubts.append("it is a command: it is never moved or resized, and starts over if its node is lost")
        if spec.kind is Kind.RIGID:
            doubts.append(
                "it is rigid: it may be suspended and moved, and goes on from its own checkpoint; "
                "say 'kind: command' if it has none"
            )
        if spec.worker.memory_gb and not self._engine.facts().get("limits_memory", True):
            doubts.append("its memory is counted but not limited: this system has no cgroups that could")
        return doubts


def _room(nodes: Sequence[Node], spec: JobSpec) -> int:
    """Workers that these nodes could have together if they were empty, by their slots and cores."""
    return sum(int(min(_by_slots(node, spec), _by_cores(node, spec))) for node in nodes)


def _by_slots(node: Node, spec: JobSpec) -> int:
    return int(node.gpus / max(spec.worker.gpus, 1e-9) + 1e-9)


def _by_cores(node: Node, spec: JobSpec) -> float:
    each = spec.worker.cpus
    return math.floor(node.cpus / each + 1e-9) if each and math.isfinite(node.cpus) else math.inf


def _code_of(code: SentCode | None, place: str) -> Code | None:
    match code:
        case PackagedCode():
            return package(code.digest, code.subdirectory, code.top)
        case SharedCode():
            return Shared(place)
        case None:
            return None


def _too_much(spec: JobSpec, nodes: Sequence[Node], room: int) -> str:
    """Why a job can never be run on these nodes, and what could be."""
    each = f"{spec.worker.gpus:g} slot{'' if spec.worker.gpus == 1 else 's'}"
    largest = max(node.gpus for node in nodes)
    if sum(_by_slots(node, spec) for node in nodes) >= spec.workers.min:
        return _too_many_cores(spec, nodes, room)
    if not room:
        has = "the largest node has" if len(nodes) > 1 else "the node has"
        most = f"{has} {largest}; ask for at most {largest}"
        return f"resources.gpus: one worker with {each} needs them on one node, and {most}"
    slots = sum(node.gpus for node in nodes)
    return (
        f"workers.min: {counted(spec.workers.min, 'worker')} with {each} each do not fit into the cluster's "
        f"{counted(slots, 'slot')} on {counted(len(nodes), 'node')}; ask for at most {counted(room, 'worker')}"
    )


def _too_many_cores(spec: JobSpec, nodes: Sequence[Node], room: int) -> str:
    """Why a job can never be run on these nodes, which have slots enough for it."""
    each, largest = f"{spec.worker.cpus:g} cores", max(node.cpus for node in nodes)
    if not room:
        return (
            f"resources.cpus: one worker with {each} needs them on one node, and the largest has {largest:g}; "
            f"ask for at most {largest:g}"
        )
    return (
        f"workers.min: {counted(spec.workers.min, 'worker')} with {each} each do not fit into the "
        f"{sum(node.cpus for node in nodes):g} cores of {counted(len(nodes), 'node')}; "
        f"ask for at most {counted(room, 'worker')}"
    )
