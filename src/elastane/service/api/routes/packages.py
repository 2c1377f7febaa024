"""Packages: directories of jobs that run on other machines, sent before their jobs are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from elastane.service.api.context import Asked
from elastane.service.api.errors import Refused
from elastane.service.api.route import BYTES, GuardedRoute
from elastane.service.api.settings import ApiSettings
from elastane.service.api.url_fields import PackageDigest
from elastane.service.messages import PackageInfo, Problem

routes = APIRouter(route_class=GuardedRoute, tags=["packages"])

_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "It is not here; send it."}}
_BODY = {
    "requestBody": {"required": True, "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}
}


@routes.get("/packages/{digest}", responses=_UNKNOWN)
async def show_package(call: Asked, digest: PackageDigest) -> PackageInfo:
    """Whether a package is here, so that nobody need send it; it then stays for at least an hour."""
    return call.service.package(digest)


@routes.put("/packages/{digest}", status_code=201, openapi_extra=_BODY)
async def put_package(call: Asked, digest: PackageDigest, request: Request) -> PackageInfo:
    """Store a package: an archive as ``elastane submit`` makes it, by the SHA-256 of its bytes."""
    pieces = _pieces(request, call.desk.settings)
    return await call.service.keep_package(call.who, digest, pieces)


async def _pieces(request: Request, settings: ApiSettings) -> AsyncIterator[bytes]:
    """The body as it comes: bounded in all, and never silent for long."""
    told = request.headers.get("content-length", "0")
    size, most = 0, settings.package_bytes
    stream = aiter(request.stream())
    while True:
        if size > most or (told.isdecimal() and int(told) > most):
            raise Refused(413, "too large", f"a package has at most {most:,} bytes; leave something out")
        try:
            async with asyncio.timeout(settings.body_s):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, "slow", f"nothing came for {settings.body_s:g} s; send it again") from None
        size += len(piece)
        yield piece
