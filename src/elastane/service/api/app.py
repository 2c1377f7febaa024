"""Builds the API from its parts."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException as RoutingError
from starlette.requests import Request
from starlette.responses import Response

from elastane import __version__
from elastane.service.api.accounts import Accounts
from elastane.service.api.context import ApiContext
from elastane.service.api.errors import answer_to
from elastane.service.api.middleware import RequestFilter
from elastane.service.api.routes import cluster, jobs, logs, packages, people, status
from elastane.service.api.settings import ApiSettings
from elastane.service.protocol import Service

PREFIX = "/api/v1"


def create_app(service: Service, accounts: Accounts, settings: ApiSettings) -> FastAPI:
    """The application; ``server.serve`` runs it."""
    app = FastAPI(
        title="Elastane",
        version=__version__,
        description="Schedules elastic training jobs.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # a route of ours, for those who have a token
        redirect_slashes=False,
    )
    app.state.desk = ApiContext(service, accounts, settings)
    app.include_router(status.outside)
    for part in (status, jobs, packages, logs, cluster, people):
        app.include_router(part.routes, prefix=PREFIX)
    app.add_exception_handler(RoutingError, _no_route)
    app.add_middleware(RequestFilter, hosts=settings.hosts)
    return app


async def _no_route(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the framework's signature
    return answer_to(error).response()
