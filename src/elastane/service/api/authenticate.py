"""Lets a request in or sends it away, before anything of it but its head was read."""

from __future__ import annotations

import math
import re
from collections import Counter

from starlette.requests import Request
from starlette.types import Scope

from elastane.service.api.context import ApiContext, Call
from elastane.service.api.errors import Refused
from elastane.service.api.permissions import Reach, Rule, suffices
from elastane.service.api.rate_limits import Buckets
from elastane.service.api.url_fields import is_name
from elastane.service.protocol import NotFound, Principal

_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/=-]{1,512})")
_ANYBODY = Principal(user="", role="viewer", tenant="")


def admit(desk: ApiContext, request: Request, rule: Rule) -> Call:
    """Authenticate and authorise a request, or refuse it.  Changes nothing but the rate limits."""
    if desk.closing.is_set():
        raise Refused(503, "unavailable", "the service is shutting down; try again", {"Retry-After": "1"})
    if rule.least is None:
        _count(desk.strangers, _peer(request))
        return Call(desk, _ANYBODY, "")
    call = _identify(desk, request)
    _begin(call)
    request.state.call = call  # from here on a refusal is somebody's, and can be audited
    call.target = target_of(request)
    if not suffices(call.who.role, rule.least):
        raise Refused(
            403, "forbidden", f"this needs the role {rule.least}, and {call.who.user} is {call.who.role}"
        )
    if rule.reach is not Reach.ANYTHING:
        _reach(call, request.path_params["job"], rule.reach)
    return call


def over(scope: Scope) -> None:
    """A request was answered to its end, or given up: its user may make another."""
    call = scope.get("state", {}).get("call")
    if isinstance(call, Call) and call.who != _ANYBODY:
        call.desk.under_way[call.who.user] -= 1
        call.desk.under_way += Counter()  # forgets those who have none


def _begin(call: Call) -> None:
    """Count a request as under way; no caller may hold all connections by following streams."""
    most, now = call.desk.settings.under_way_per_user, call.desk.under_way[call.who.user]
    if now >= most:
        told = f"{call.who.user} has {now} requests under way and may have {most}; end some of what is followed"
        raise Refused(429, "busy", told, {"Retry-After": "1"})
    call.desk.under_way[call.who.user] += 1


def target_of(request: Request) -> str:
    """What a request is about, from its path; safe to store and to show."""
    text = "/".join(str(value) for value in request.path_params.values())[:200]
    return text if text.isprintable() else ascii(text)


def no_such_job(job: str) -> NotFound:
    """The one answer for a job that is not there and for one that the asker may not know of."""
    return NotFound(f"there is no job {job[:100]!a}; 'elastane queue --all' lists those you may see")


def _identify(desk: ApiContext, request: Request) -> Call:
    token = _token(request)
    who = desk.accounts.authenticate(token) if token else None
    if token and who:
        _count(desk.callers, who.user.encode())  # not by token: anybody may make more of those
        return Call(desk, who, token)
    _count(desk.strangers, _peer(request))
    told = "the token is unknown, expired or revoked" if token else "no token; send 'Authorization: Bearer …'"
    raise Refused(401, "unauthorized", told, {"WWW-Authenticate": 'Bearer realm="elastane"'})


def _token(request: Request) -> str | None:
    given = request.headers.getlist("authorization")
    match = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    return match[1] if match else None


def _peer(request: Request) -> bytes:
    return request.client.host.encode() if request.client else b""


def _count(buckets: Buckets, caller: bytes) -> None:
    wait_s = buckets.wait_s(caller)
    if wait_s > 0:
        told = f"too many requests; try again in {wait_s:.2g} s"
        raise Refused(429, "busy", told, {"Retry-After": str(math.ceil(wait_s))})


def _reach(call: Call, job: str, reach: Reach) -> None:
    """Check a job's exact id and tenant: malformed ids and unknown ones get the same answer."""
    try:
        owner, tenant = call.service.owner_of(job) if is_name(job) else ("", "")
    except NotFound:
        owner, tenant = "", ""
    if not tenant or (tenant != call.who.tenant and not call.is_admin):
        raise no_such_job(job)
    if reach is Reach.OWN and owner != call.who.user and not call.is_admin:
        raise Refused(403, "forbidden", f"job {job} belongs to {owner}; only they or an admin may change it")
