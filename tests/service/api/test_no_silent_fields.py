"""No field of a request is accepted and ignored: the route that takes it reads it, and so it does its parameters."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel

from elastane.service.api import requests
from elastane.service.api.routes import cluster, jobs, logs, packages, people, status
from elastane.service.messages import Submission
from helpers.names_read import attributes_read, unread_parameters

ROUTES = {
    f"{method} {route.path}": route.endpoint
    for each in (status.outside, *(part.routes for part in (status, jobs, packages, logs, cluster, people)))
    for route in each.routes
    if isinstance(route, APIRoute)
    for method in route.methods
}


def bodies(endpoint: Callable[..., Any]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Parameters of a route that are bodies, and their models."""
    for name, hint in typing.get_type_hints(endpoint).items():
        if name != "return" and inspect.isclass(hint) and issubclass(hint, BaseModel):
            yield name, hint


def unread_fields(endpoint: Callable[..., Any]) -> list[str]:
    """Fields of a route's body that the route does not read."""
    return [
        f"{model.__name__}.{field}"
        for name, model in bodies(endpoint)
        for field in sorted(set(model.model_fields) - attributes_read(endpoint, name))
    ]


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_reads_all_fields_of_its_body(route: str) -> None:
    assert unread_fields(ROUTES[route]) == []


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_reads_its_parameters(route: str) -> None:
    assert unread_parameters(ROUTES[route]) == set()


def test_every_request_is_some_routes_body() -> None:
    taken = {model for endpoint in ROUTES.values() for _, model in bodies(endpoint)}
    written = {
        each for _, each in inspect.getmembers(requests, inspect.isclass) if issubclass(each, requests.Request)
    }
    assert taken == (written - {requests.Request}) | {Submission}


def test_a_field_that_nothing_reads_would_be_found() -> None:
    class Wider(requests.Move):
        urgent: bool = False

    async def route(call: object, wish: Wider) -> str:
        return f"{call} {wish.node}"

    route.__annotations__["wish"] = Wider
    assert unread_fields(route) == ["Wider.urgent"]
