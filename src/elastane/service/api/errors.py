"""A failed request is answered with a status and a ``Problem``, never a stack trace."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as RoutingError
from starlette.responses import Response

from elastane.errors import ElastaneError
from elastane.jobs.problems import SpecError
from elastane.service.messages import Problem
from elastane.service.protocol import Conflict, NotFound

_log = logging.getLogger(__name__)

_ROUTING_KINDS = {404: "not found", 405: "method"}


class Refused(HTTPException):
    """A refusal by the API itself, before or instead of the service."""

    def __init__(self, status: int, kind: str, error: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail=error, headers=dict(headers or {}))
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """An error as it goes over the wire."""

    status: int
    problem: Problem
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """The HTTP response: a problem as JSON, with its status and headers."""
        body = self.problem.model_dump_json().encode()
        return Response(body, self.status, self.headers, media_type="application/json")


def answer_to(error: Exception, unavailable: tuple[type[Exception], ...] = ()) -> Answer:
    """The HTTP answer to an error; an unexpected one is logged under an incident id."""
    if isinstance(error, Refused):
        problem = Problem(error=error.detail, kind=error.kind)
        return Answer(error.status_code, problem, error.headers or {})
    if isinstance(error, RoutingError):
        kind = _ROUTING_KINDS.get(error.status_code, "request")
        return Answer(error.status_code, Problem(error=f"{error.detail}", kind=kind), error.headers or {})
    if isinstance(error, RequestValidationError):
        return Answer(422, _wrong_fields(error))
    if isinstance(error, unavailable):
        return Answer(503, Problem(error=f"{error}", kind="unavailable"), {"Retry-After": "1"})
    if isinstance(error, ElastaneError):
        return _users_mistake(error)
    incident = secrets.token_hex(6)
    _log.error("incident %s: %s", incident, type(error).__name__, exc_info=error)
    told = f"an internal error; the service's log has it as incident {incident}"
    return Answer(500, Problem(error=told, kind="internal"))


def _users_mistake(error: ElastaneError) -> Answer:
    if isinstance(error, SpecError):
        fields = [{"field": problem.path, "message": problem.text} for problem in error.problems]
        return Answer(422, Problem(error=f"{error}", kind="spec", problems=fields))
    if isinstance(error, NotFound):
        return Answer(404, Problem(error=f"{error}", kind="not found"))
    if isinstance(error, Conflict):
        return Answer(409, Problem(error=f"{error}", kind="conflict"))
    return Answer(400, Problem(error=f"{error}", kind="refused"))


def _wrong_fields(error: RequestValidationError) -> Problem:
    fields = []
    for wrong in error.errors():
        where = ".".join(str(part) for part in wrong["loc"][1:]) or str(wrong["loc"][0])
        fields.append({"field": where[:200], "message": str(wrong["msg"])})
    told = "; ".join(f"{wrong['field']}: {wrong['message']}" for wrong in fields[:5])
    return Problem(error=told, kind="request", problems=fields[:100])
