"""Routes for users, tokens and the audit log.  Only admins handle tokens of others."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from elastane.kit.durations import duration
from elastane.service.api.context import Asked, Call
from elastane.service.api.errors import Refused
from elastane.service.api.requests import AddUser, MakeToken, SetRole
from elastane.service.api.route import GuardedRoute
from elastane.service.api.url_fields import After, AskedName, TokenId, UserName
from elastane.service.messages import AuditRecord, NewToken, TokenInfo, UserInfo
from elastane.service.protocol import Conflict, NotFound

routes = APIRouter(route_class=GuardedRoute, tags=["people"])

_GONE: dict[str, Any] = {"status_code": 204, "response_class": Response}


@routes.get("/users")
async def list_users(call: Asked) -> list[UserInfo]:
    """All users, with roles and tenants."""
    return call.accounts.users()


@routes.post("/users", status_code=201)
async def add_user(call: Asked, wish: AddUser) -> UserInfo:
    """Add a user, who needs a token next."""
    call.target = wish.name
    return call.accounts.add_user(wish.name, wish.role, wish.tenant)


@routes.delete("/users/{user}", **_GONE)
async def remove_user(call: Asked, user: UserName) -> Response:
    """Remove a user together with all tokens."""
    _not_oneself(call, user)
    call.accounts.remove_user(user)
    return Response(status_code=204)


@routes.put("/users/{user}/role")
async def set_role(call: Asked, user: UserName, wish: SetRole) -> UserInfo:
    """Change a user's role."""
    _not_oneself(call, user)
    return call.accounts.set_role(user, wish.role)


def _not_oneself(call: Call, user: str) -> None:
    """Refuse admins to change their own rights: the last one could lock all users out."""
    if user == call.who.user:
        raise Conflict("you cannot take away your own rights; let another admin do it")


@routes.get("/tokens")
async def list_tokens(call: Asked, user: AskedName = None) -> list[TokenInfo]:
    """Tokens, without what makes them ones: one's own, or (an admin) those of a user or of all."""
    return call.accounts.tokens(_oneself(call, user))


@routes.post("/tokens", status_code=201)
async def new_token(call: Asked, wish: MakeToken) -> NewToken:
    """A new token.  It is shown this once, and ends no later than the token it was asked for with."""
    user = _oneself(call, wish.user) or call.who.user
    made = call.accounts.new_token(user, wish.label, _end_of(call, wish.lifetime_s))
    call.target = f"{user}/{made.id}"
    return made


def _end_of(call: Call, lifetime_s: float | None) -> float | None:
    """When a new token ends; or who found a token that is good for an hour would have access for ever."""
    own_s, now_s = call.who.expires_s, call.desk.settings.now()
    asked_s = own_s if lifetime_s is None else now_s + lifetime_s
    if own_s is not None and asked_s is not None and asked_s > own_s:
        left = duration(max(0.0, own_s - now_s))
        raise Refused(
            403,
            "forbidden",
            f"lifetime_s: your own token is good for {left} more, and makes none that outlives it",
        )
    return asked_s


def _oneself(call: Call, user: str | None) -> str | None:
    if call.is_admin:
        return user
    if user not in (None, call.who.user):
        raise Refused(
            403, "forbidden", f"user: you are {call.who.user}; only an admin handles tokens of others"
        )
    return call.who.user


@routes.delete("/tokens/{token}", **_GONE)
async def revoke_token(call: Asked, token: TokenId) -> Response:
    """Refuse a token from now on."""
    if not call.is_admin and token not in {mine.id for mine in call.accounts.tokens(call.who.user)}:
        raise NotFound(f"you have no token {token}; 'elastane token list' shows yours")
    call.accounts.revoke_token(token)
    return Response(status_code=204)


@routes.get("/audit")
async def audit_log(
    call: Asked, after: After = 0, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000
) -> list[AuditRecord]:
    """Who asked for which change, and what became of it; the oldest first."""
    return call.accounts.audit_log(after, limit)
