"""Redacts answers: an admin sees all of one, other users see nothing of other tenants' jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from elastane.service.api.context import Call
from elastane.service.messages import Ahead, EventRecord, JobDetail, JobSummary, NodeInfo, Why
from elastane.service.protocol import NotFound

Line = TypeVar("Line", bound=JobSummary)
_HIDDEN = "(hidden)"
_VARIABLES = ("env", "exported")
_ELSEWHERE = "(a job of another tenant)"


def sees_job(call: Call, job: str) -> bool:
    """Whether a job exists as far as the caller is concerned."""
    if call.is_admin:
        return True
    try:
        return call.service.owner_of(job)[1] == call.who.tenant
    except NotFound:
        return False


def detail_for(call: Call, detail: JobDetail) -> JobDetail:
    """Environment variables often hold keys of other services: they are for their owner."""
    detail = line_for(call, detail)
    filled = [field for field in _VARIABLES if detail.spec.get(field)]
    if call.is_admin or detail.owner == call.who.user or not filled:
        return detail
    hidden = {field: _masked(detail.spec[field]) for field in filled}
    return detail.model_copy(update={"spec": detail.spec | hidden})


def _masked(env: Any) -> Any:
    return dict.fromkeys(env, _HIDDEN) if isinstance(env, dict) else _HIDDEN


def why_for(call: Call, why: Why) -> Why:
    """Jobs ahead that belong to other tenants stay in the list, without a name."""
    return why.model_copy(update={"ahead": _ahead_for(call, why.ahead)})


def line_for(call: Call, line: Line) -> Line:
    """A line of the queue as the caller may see it: jobs of other tenants that it waits for have no name."""
    return line.model_copy(update={"waits_for": _ahead_for(call, line.waits_for)}) if line.waits_for else line


def _ahead_for(call: Call, ahead: list[Ahead]) -> list[Ahead]:
    return [job if sees_job(call, job.id) else _nameless(job) for job in ahead]


def _nameless(job: Ahead) -> Ahead:
    return job.model_copy(update={"id": "", "name": _ELSEWHERE, "owner": "", "eta": None})


def node_for(call: Call, node: NodeInfo) -> NodeInfo:
    """How full a node is may be known; whose jobs fill it, only for one's own tenant."""
    jobs = {job: slots for job, slots in node.jobs.items() if sees_job(call, job)}
    return node.model_copy(update={"jobs": jobs})


def events_for(call: Call, events: Iterable[EventRecord]) -> list[EventRecord]:
    """Events of the tenant's jobs; of those about no job only that they happened, since a plan names all jobs."""
    if call.is_admin:
        return list(events)
    return [
        event if event.job is not None else event.model_copy(update={"body": {}})
        for event in events
        if event.job is None or sees_job(call, event.job)
    ]
