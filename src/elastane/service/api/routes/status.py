"""These routes report on the service: health, figures, events, and the description of the API itself."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elastane.service.api.context import Asked
from elastane.service.api.errors import Refused
from elastane.service.api.route import GuardedRoute
from elastane.service.api.streams import send_events
from elastane.service.api.url_fields import LARGEST, After
from elastane.service.messages import Message, Problem, ServerInfo, UserInfo

outside = APIRouter(route_class=GuardedRoute)
"""Routes that monitoring knows by fixed names, outside of the versioned API."""

routes = APIRouter(route_class=GuardedRoute)


class Health(Message):
    """That we answer; nothing else is for strangers."""

    status: str = "ok"


class Figures(Response):
    """A response in the text format of Prometheus."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"


class EventStream(StreamingResponse):
    """A response of server-sent events."""

    media_type = "text/event-stream"


@outside.get("/health", responses={429: {"model": Problem, "description": "Too many requests."}})
async def health() -> Health:
    """Whether the service answers."""
    return Health()


@outside.get("/metrics", response_class=Figures)
async def metrics(call: Asked) -> Response:
    """Metrics in the text format of Prometheus."""
    from elastane.service.api.metrics import exposition  # not before somebody asks: starts are short without

    return Figures(exposition(call.service.gauges()))


@routes.get("/openapi.json")
async def openapi(request: Request) -> dict[str, Any]:
    """The description of this API, as OpenAPI."""
    description: dict[str, Any] = request.app.openapi()
    return description


@routes.get("/info")
async def info(call: Asked) -> ServerInfo:
    """Version, policy and size of the server that answers."""
    return call.service.info()


@routes.get("/whoami")
async def whoami(call: Asked) -> UserInfo:
    """The user that the token belongs to."""
    return UserInfo(name=call.who.user, role=call.who.role, tenant=call.who.tenant)


@routes.get("/events", response_class=EventStream)
async def events(
    call: Asked,
    after: After = 0,
    follow: Annotated[
        bool, Query(description="Go on with what happens; else end with what has happened.")
    ] = True,
    last_event_id: Annotated[str | None, Header(description="Set by a client that reconnects.")] = None,
) -> Response:
    """Changes as they happen; ``id`` is the entry's number, with which a client goes on where it was."""
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 20):
            raise Refused(
                400, "request", "Last-Event-ID: not the number of an entry; leave it out to start anew"
            )
        after = min(int(last_event_id), LARGEST)
    return EventStream(send_events(call, after, follow=follow))
