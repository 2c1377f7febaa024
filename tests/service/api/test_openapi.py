"""The description of the API is true: made-up requests find no 500 and no answer that it does not promise."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from elastane.service.api.app import create_app
from service.api.house import House

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
HEADERS = {"Authorization": "Bearer t-admin", "Host": "localhost"}


_home = tempfile.TemporaryDirectory(prefix="elastane-api-")  # goes with the process

# Schemathesis makes a test of each operation when tests are collected, so the API is there before any fixture.
_house = House(Path(_home.name), burst=10**9, anonymous_burst=10**9)
_app = create_app(_house.service, _house.accounts, _house.settings)


def _described(*phases: str) -> Any:
    found = schemathesis.openapi.from_asgi("/api/v1/openapi.json", _app, headers=HEADERS)
    found.config.phases.update(phases=list(phases))
    return found.exclude(path="/api/v1/events")  # has no end


few, many = _described("fuzzing"), _described("examples", "coverage", "fuzzing")
repeatable = settings(derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@few.parametrize()
@settings(repeatable, max_examples=4)
def test_no_made_up_request_finds_a_defect(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=HEADERS, checks=CHECKS)


@pytest.mark.slow
@many.parametrize()
@settings(repeatable, max_examples=100)
def test_no_made_up_request_finds_a_defect_however_many(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=HEADERS, checks=CHECKS)


@pytest.mark.parametrize("code", ["400", "401", "403", "422", "429", "503"])
def test_every_route_with_a_token_promises_the_refusals_it_can_give(code: str, house: House) -> None:
    for path, methods in house.app.openapi()["paths"].items():
        for operation in methods.values():
            assert path == "/health" or code in operation["responses"], (path, operation["operationId"])


def test_only_health_is_described_as_open_to_everybody(house: House) -> None:
    described = house.app.openapi()["paths"]
    operations = [(path, operation) for path, methods in described.items() for operation in methods.values()]
    assert [path for path, operation in operations if "security" not in operation] == ["/health"]
