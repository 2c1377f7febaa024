"""Logs of a job: which there are, and what they say."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from elastane.service.api.context import Asked
from elastane.service.api.log_reader import LogReader
from elastane.service.api.route import GuardedRoute
from elastane.service.api.streams import follow_log
from elastane.service.api.url_fields import LARGEST, AttemptNumber, JobId, WorkerName
from elastane.service.messages import LogFile

routes = APIRouter(route_class=GuardedRoute, tags=["logs"])

NEXT_OFFSET = "X-Next-Offset"
_MOST = 1_048_576
_TEXT = "text/plain; charset=utf-8"
_DESCRIBED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The text; not following, the header says where the next read should start.",
        "headers": {NEXT_OFFSET: {"schema": {"type": "integer"}}},
    }
}


@routes.get("/jobs/{job}/logs")
async def list_logs(call: Asked, job: JobId) -> list[LogFile]:
    """The job's log files, in order."""
    return call.service.logs(job)


@routes.get("/jobs/{job}/logs/{attempt}/{worker}", response_class=PlainTextResponse, responses=_DESCRIBED)
async def read_log(
    call: Asked,
    job: JobId,
    attempt: AttemptNumber,
    worker: WorkerName,
    offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST, description="Most bytes; not when following.")] = _MOST,
    follow: bool = False,
) -> Response:
    """A part of a log; with ``follow``, all of it and what is added until the job ends or another leader writes."""
    path = call.service.log_path(job, attempt, worker)
    with LogReader(path, job) as reader:
        if follow:  # opens the file itself: a stream that nobody reads must not hold it
            return StreamingResponse(follow_log(call, path, job, attempt, worker, offset), media_type=_TEXT)
        text = await run_in_threadpool(reader.read, offset, limit)
        there = min(offset, reader.size) + len(text)
    return Response(text, headers={NEXT_OFFSET: str(there)}, media_type=_TEXT)
