"""The one kind of route there is: looked up in the table of permissions, guarded, audited, documented."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi import Depends
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.requests import Request
from starlette.responses import Response

from elastane.service.api.authenticate import admit
from elastane.service.api.body import StrictRequest, must_be_bytes, must_be_json, must_be_known
from elastane.service.api.context import ApiContext, Call
from elastane.service.api.errors import answer_to
from elastane.service.api.permissions import PERMISSIONS, Reach, Rule

BYTES = "application/octet-stream"
"""What a route takes that reads its body itself, as its description says; all others take JSON."""

_MEANING = {
    400: "A mistake in the request, named in the answer.",
    401: "No token, or one that is not good.",
    403: "The token's user may not do this.",
    404: "There is no such thing, or none that the asker may know of.",
    408: "The body took too long.",
    409: "It cannot be done in the present state.",
    413: "The body is too large.",
    415: "The body is of another type than this takes.",
    422: "Fields are wrong; each is named.",
    429: "Too many requests; Retry-After says when to try again.",
    503: "Not in charge at the moment; try again.",
}
_ALWAYS = (400, 429, 503)
_WITH_TOKEN = (401, 403, 422)
_WRITING = (404, 408, 409, 413, 415)
_BEARER = HTTPBearer(auto_error=False, description="A token from 'elastane token new'.")
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_NOT_AUDITED = {401, 429}
"""Refusals before anybody is known, or meant to keep a flood from us: the audit log must not flood either."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRoute(APIRoute):
    """A route whose name (that of its function) has a row in the table; otherwise it cannot be built."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.rule = PERMISSIONS[endpoint.__name__]
        told = _documented(self.rule, options["methods"])
        options["responses"] = told | (options.get("responses") or {})
        options["operation_id"] = endpoint.__name__
        if self.rule.least is not None:
            options["dependencies"] = [*(options.get("dependencies") or []), Depends(_BEARER)]
        extra = options.get("openapi_extra") or {}
        self._takes_bytes = BYTES in extra.get("requestBody", {}).get("content", {})
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Handler:
        """Admission, then the route itself, then the audit log; every error becomes an answer."""
        inner = super().get_route_handler()
        writes = self.methods != {"GET"}
        known = sorted(field.alias for field in self.dependant.query_params)

        async def handle(request: Request) -> Response:
            desk: ApiContext = request.app.state.desk
            strict = StrictRequest(request, desk.settings)
            try:
                request.state.call = admit(desk, request, self.rule)
                if self.rule.least is not None:  # monitoring may add what it likes to what strangers may ask
                    must_be_known(request, known)
                if self._takes_bytes:
                    must_be_bytes(request)
                elif writes and request.method != "DELETE":
                    must_be_json(request, expected=self.body_field is not None)
                response, outcome = await inner(strict), "ok"
            except Exception as error:  # each has an answer; our own are logged
                answer = answer_to(error, desk.settings.unavailable)
                response, outcome = answer.response(), answer.problem.kind
            if writes and response.status_code not in _NOT_AUDITED:
                return _audited(response, request, self.name, outcome)
            return response

        return handle


def _audited(response: Response, request: Request, action: str, outcome: str) -> Response:
    """The response, once it is written down; a change that cannot be accounted for is not confirmed."""
    call = getattr(request.state, "call", None)
    if isinstance(call, Call) and not call.recorded:
        try:
            call.accounts.audit(call.who.user, action, call.target, outcome)
        except Exception as error:
            return answer_to(error, call.desk.settings.unavailable).response()
    return response


def _documented(rule: Rule, methods: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """The refusals a route can give.  They are JSON, also where its answers are of another type.

    By reference (the route for health has it whole): to build the model for each again takes a part of every start.
    """
    statuses = {*_ALWAYS}
    if rule.least is not None:
        statuses |= {*_WITH_TOKEN}
    if rule.reach is not Reach.ANYTHING:
        statuses.add(404)
    if set(methods) != {"GET"}:
        statuses |= {*_WRITING}
    problem = {"content": {"application/json": {"schema": _PROBLEM}}}
    return {status: {**problem, "description": _MEANING[status]} for status in sorted(statuses)}
