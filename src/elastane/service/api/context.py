"""The context of a request: the application's parts (``ApiContext``), and who makes this one (``Call``)."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from elastane.service.api.accounts import Accounts
from elastane.service.api.rate_limits import Buckets
from elastane.service.api.settings import ApiSettings
from elastane.service.protocol import Principal, Service


class ApiContext:
    """The parts that all requests of one application share."""

    def __init__(self, service: Service, accounts: Accounts, settings: ApiSettings) -> None:
        self.service = service
        self.accounts = accounts
        self.settings = settings
        self.callers = Buckets(settings.rate_per_s, settings.burst, settings.clock, settings.buckets)
        self.strangers = Buckets(
            settings.anonymous_rate_per_s, settings.anonymous_burst, settings.clock, settings.buckets
        )
        self.under_way: Counter[str] = Counter()
        """Requests by user that are being answered."""
        self.closing = asyncio.Event()
        """Set when the server is about to stop: streams end, new requests are sent away."""


@dataclass(slots=True)
class Call:
    """One request that was let in.  ``target`` is what the audit log says it was about."""

    desk: ApiContext
    who: Principal
    token: str = field(repr=False)
    target: str = ""
    recorded: bool = False
    """Whether the audit log has it already: what was changed and the entry about it were stored together."""

    @property
    def service(self) -> Service:
        """The control plane that answers."""
        return self.desk.service

    @property
    def accounts(self) -> Accounts:
        """The accounts: users, tokens and the audit log."""
        return self.desk.accounts

    @property
    def is_admin(self) -> bool:
        """Whether the caller may see and change jobs of every tenant."""
        return self.who.role == "admin"

    @property
    def still_allowed(self) -> bool:
        """Whether a stream may go on: token and rights are as they were, and the server is not closing."""
        return not self.desk.closing.is_set() and self.accounts.authenticate(self.token) == self.who


async def _call(request: Request) -> Call:
    call = request.state.call
    assert isinstance(call, Call)
    return call


Asked = Annotated[Call, Depends(_call)]
"""The call, as a route's parameter."""
