"""Jobs: handing them in, looking at them, changing them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from elastane.jobs.problems import Problem, SpecError, shown
from elastane.service.api.context import Asked, Call
from elastane.service.api.errors import Refused
from elastane.service.api.redaction import detail_for, line_for, why_for
from elastane.service.api.requests import Move, Scale
from elastane.service.api.route import GuardedRoute
from elastane.service.api.url_fields import AskedName, JobId
from elastane.service.messages import EventRecord, JobDetail, JobSummary, Submission, Submitted, Why
from elastane.service.protocol import Which

routes = APIRouter(route_class=GuardedRoute, tags=["jobs"])


@routes.post(
    "/jobs",
    status_code=201,
    response_model=None,  # a message as it is: to check it once more would take longer than to store the job
    responses={
        201: {"model": Submitted, "description": "The job is stored."},
        200: {"model": Submitted, "description": "The key was used before: this is that job."},
    },
)
async def submit_job(call: Asked, submission: Submission) -> Response:
    """Store a job.  A repeated ``key`` of one user is the same job."""
    spec = _of_own_tenant(call, submission.spec)
    submitted = await call.service.submit(call.who, spec, submission.directory, submission.key, submission.code)
    call.target = submitted.id
    call.recorded = not submitted.repeated
    status = 200 if submitted.repeated else 201
    return Response(submitted.model_dump_json().encode(), status, media_type="application/json")


def _of_own_tenant(call: Call, spec: dict[str, Any]) -> dict[str, Any]:
    tenant = spec.get("tenant", call.who.tenant)
    if not isinstance(tenant, str):
        raise SpecError([Problem("tenant", f"tenant: got {shown(tenant)}; expected a name")])
    if tenant != call.who.tenant and not call.is_admin:
        told = f"tenant: you are of tenant {call.who.tenant} and cannot submit for another; leave the field out"
        raise Refused(403, "forbidden", told)
    return {**spec, "tenant": tenant}


@routes.get("/jobs")
async def list_jobs(
    call: Asked,
    which: Which = "active",
    owner: AskedName = None,
    tenant: AskedName = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> list[JobSummary]:
    """Jobs of the asker's tenant (an admin's: of all): active ones in the order of the queue, then the ended."""
    if not call.is_admin:
        if tenant not in (None, call.who.tenant):
            raise Refused(403, "forbidden", f"tenant: you may see jobs of tenant {call.who.tenant} only")
        tenant = call.who.tenant
    lines = call.service.jobs(which, owner=owner, tenant=tenant, limit=limit)
    return [line_for(call, line) for line in lines]


@routes.get("/jobs/{job}")
async def show_job(call: Asked, job: JobId) -> JobDetail:
    """Everything about one job."""
    return detail_for(call, call.service.job(job))


@routes.get("/jobs/{job}/why")
async def why_job(call: Asked, job: JobId, instead: bool = False) -> Why:
    """What keeps a job from running or growing; with ``instead``, what another wish would bring."""
    return why_for(call, call.service.why(job, instead=instead))


@routes.get("/jobs/{job}/events")
async def job_events(call: Asked, job: JobId) -> list[EventRecord]:
    """The job's part of the event log."""
    return call.service.life(job)


@routes.post("/jobs/{job}/cancel")
async def cancel_job(call: Asked, job: JobId) -> JobSummary:
    """End a job for good."""
    return line_for(call, call.service.cancel(call.who, job))


@routes.post("/jobs/{job}/suspend")
async def suspend_job(call: Asked, job: JobId) -> JobSummary:
    """Save a job and put it on hold."""
    return line_for(call, call.service.suspend(call.who, job))


@routes.post("/jobs/{job}/resume")
async def resume_job(call: Asked, job: JobId) -> JobSummary:
    """Take a job off hold, so that it competes again."""
    return line_for(call, call.service.resume(call.who, job))


@routes.post("/jobs/{job}/scale")
async def scale_job(call: Asked, job: JobId, wish: Scale) -> JobSummary:
    """Pin a job's size, or leave it to the policy again."""
    return line_for(call, call.service.scale(call.who, job, wish.workers))


@routes.post("/jobs/{job}/move")
async def move_job(call: Asked, job: JobId, wish: Move) -> JobSummary:
    """Pin a job to a node."""
    return line_for(call, call.service.move(call.who, job, wish.node))
