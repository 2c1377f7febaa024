"""Whatever is sent, the answer is a status and a sentence."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from elastane.service.api.app import create_app
from elastane.service.api.settings import ApiSettings
from elastane.service.messages import Problem
from service.api.house import JOB, SPEC, House

V1 = "/api/v1"
JSON = {"Content-Type": "application/json"}


class Deposed(Exception):
    """What a service raises that is not in charge any more."""


def post(house: House, body: bytes | str, **headers: str) -> httpx.Response:
    return house.ask("POST", f"{V1}/jobs", "owner", content=body, headers={**JSON, **headers})


def problem(answer: httpx.Response) -> Problem:
    assert answer.headers["content-type"] == "application/json"
    return Problem.model_validate_json(answer.text)


def test_every_mistake_in_a_spec_is_named_with_its_field_and_nothing_is_stored(house: House) -> None:
    spec = {"command": "python x.py", "workrs": 2, "priority": "high"}
    answer = house.ask("POST", f"{V1}/jobs", "owner", json={"spec": spec, "directory": "/tmp"})
    told = problem(answer)
    assert (answer.status_code, told.kind) == (422, "spec")
    assert {wrong["field"] for wrong in told.problems} == {"workrs", "priority"}
    assert any("workers" in wrong["message"] for wrong in told.problems)
    assert len(house.service.details) == 2


def test_an_impossible_demand_is_a_400_with_the_services_sentence(house: House) -> None:
    body = {"spec": {**SPEC, "workers": 9}, "directory": "/tmp"}
    answer = house.ask("POST", f"{V1}/jobs", "owner", json=body)
    assert (answer.status_code, problem(answer).error) == (400, "workers: 9 are wanted and the cluster has 4")


def test_a_repeated_key_is_one_job_and_says_so(house: House) -> None:
    body = {"spec": SPEC, "directory": "/tmp", "key": "once"}
    first, again = (house.ask("POST", f"{V1}/jobs", "owner", json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert again.json()["repeated"]
    assert house.ask("POST", f"{V1}/jobs", "other", json=body).status_code == 201


def test_what_cannot_be_done_now_is_a_409(house: House) -> None:
    house.ask("POST", f"{V1}/jobs/{JOB}/cancel", "owner")
    answer = house.ask("POST", f"{V1}/jobs/{JOB}/cancel", "owner")
    assert (answer.status_code, problem(answer).kind) == (409, "conflict")


def test_a_defect_of_ours_shows_an_incident_id_and_no_more(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.service.breaks = RuntimeError("password=hunter2")
    with caplog.at_level(logging.ERROR):
        answer = house.ask("GET", f"{V1}/info", "owner")
    told = problem(answer)
    assert (answer.status_code, told.kind) == (500, "internal")
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text
    assert told.error.rsplit(" ", 1)[1] in caplog.text


def test_a_service_that_is_not_in_charge_is_a_503(tmp_path: Path) -> None:
    house = House(tmp_path, unavailable=(Deposed,))
    house.service.breaks = Deposed("another control plane has taken over")
    answer = house.ask("GET", f"{V1}/info", "owner")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_a_change_that_cannot_be_audited_is_not_confirmed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: str) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(house.accounts, "audit", full)
    assert house.ask("POST", f"{V1}/jobs/{JOB}/suspend", "owner").status_code == 500


def test_requests_during_shutdown_are_sent_away(house: House) -> None:
    house.desk.closing.set()
    assert house.ask("GET", f"{V1}/info", "owner").status_code == 503


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "body"),
        (b"{", "line 1"),
        (b"\xff\xfe{}", "UTF-8"),
        (b'{"spec": {}, "spec": {}}', "more than once"),
        (b'{"spec": {"weight": NaN}}', "NaN"),
        (b'{"spec": {"weight": -Infinity}}', "Infinity"),
        (b'{"spec": {"weight": 1e999}}', "too large"),
        (b'{"spec": ' + b"[" * 100 + b"]" * 100 + b"}", "nested"),
        (b"[" * 100_000, "nested"),
        (b'{"spec": {"name": "\\ud800"}}', "surrogate"),
        (b'{"spec": {"a\\u0000": 1}}', "NUL"),
        (b'{"spec": ' + b"9" * 5000 + b"}", "digits"),
        (b"[]", ""),
        (b'{"spec": {}, "directory": "/tmp", "extra": 1}', "extra"),
        (b'{"spec": {}, "directory": ""}', "directory"),
    ],
)
def test_strange_bodies_are_refused_with_a_reason(body: bytes, said: str, house: House) -> None:
    answer = post(house, body)
    assert answer.status_code in (400, 422)
    assert said in problem(answer).error
    assert len(house.service.details) == 2


def test_a_body_of_just_the_allowed_size_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    house = House(tmp_path, body_bytes=1000)
    body = json.dumps({"spec": SPEC, "directory": "/tmp"}).encode()
    assert post(house, body.ljust(1000)).status_code == 201
    assert post(house, body.ljust(1001)).status_code == 413


def test_a_body_of_untold_length_is_cut_off(tmp_path: Path) -> None:
    house = House(tmp_path, body_bytes=1000)
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 100

    answer = house.ask("POST", f"{V1}/jobs", "owner", content=endless(), headers=JSON)
    assert answer.status_code == 413
    assert sent < 100


def test_a_body_that_never_arrives_is_given_up(tmp_path: Path) -> None:
    house = House(tmp_path, body_s=0.01)

    async def never() -> Any:
        await asyncio.Event().wait()
        yield b""

    answer = house.ask("POST", f"{V1}/jobs", "owner", content=never(), headers=JSON)
    assert answer.status_code == 408


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
def test_only_json_may_be_written(kind: str, house: House) -> None:
    assert post(house, b"{}", **{"Content-Type": kind}).status_code == 415
    answer = house.ask(
        "POST", f"{V1}/jobs/{JOB}/cancel", "owner", content=b"x=1", headers={"Content-Type": kind}
    )
    assert answer.status_code == 415


def test_who_may_not_is_told_so_before_the_body_is_looked_at(house: House) -> None:
    assert house.ask("POST", f"{V1}/jobs", content=b"{").status_code == 401
    assert house.ask("POST", f"{V1}/jobs", "viewer", content=b"{").status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:7070", "[::1]:7070", "gpu.example"])
def test_names_of_ours_are_answered(host: str, tmp_path: Path) -> None:
    assert _health(tmp_path, host).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost:80@evil", "127.0.0.1.x", ""]
)
def test_other_names_are_not(host: str, tmp_path: Path) -> None:
    assert problem(_health(tmp_path, host)).kind == "host"


def _health(home: Path, host: str) -> httpx.Response:
    house = House(home)
    house.app = create_app(house.service, house.accounts, ApiSettings(names=("gpu.example",)))
    return house.ask("GET", "/health", headers={"Host": host})


@pytest.mark.parametrize("path", ["/health", f"{V1}/info", "/nowhere"])
def test_every_answer_is_of_no_use_to_a_browser(path: str, house: House) -> None:
    headers = house.ask("GET", path, headers={"Origin": "http://evil.example"}).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert not [name for name in headers if name.startswith("access-control")]


def test_health_says_nothing_else(house: House) -> None:
    assert house.ask("GET", "/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/docs", 404), ("GET", f"{V1}/jobs/", 404), ("PATCH", f"{V1}/jobs", 405)],
)
def test_paths_and_methods_that_are_not_there(method: str, path: str, status: int, house: House) -> None:
    answer = house.ask(method, path, "admin")
    assert answer.status_code == status
    assert problem(answer).error


def test_figures_are_valid_prometheus_text(house: House) -> None:
    answer = house.ask("GET", "/metrics", "viewer")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.text.splitlines() == [
        "# HELP elastane_jobs Jobs, by state.",
        "# TYPE elastane_jobs gauge",
        'elastane_jobs{state="queued"} 2.0',
        "# HELP elastane_slots Slots.",
        "# TYPE elastane_slots gauge",
        "elastane_slots 4.0",
        "# HELP elastane_rounds_total Rounds.",
        "# TYPE elastane_rounds_total counter",
        "elastane_rounds_total 7.0",
    ]


def test_figures_that_are_no_numbers_do_not_break_an_answer(house: House) -> None:
    house.service.change(JOB, "trained", goodput=float("nan"), progress=float("inf"))
    answer = house.ask("GET", f"{V1}/jobs/{JOB}", "owner")
    assert (answer.status_code, answer.json()["goodput"]) == (200, None)


@pytest.mark.parametrize("charset", ["utf-16", "latin-1", "'utf-16'", '"utf-16"'])
def test_a_body_in_another_encoding_is_refused(charset: str, house: House) -> None:
    headers = {"Content-Type": f"application/json; charset={charset}"}
    answer = house.ask("POST", "/api/v1/jobs/j1/scale", "owner", content=b'{"workers": 2}', headers=headers)
    assert answer.status_code == 415
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    answer = house.ask("POST", "/api/v1/jobs/j1/scale", "owner", content=b'{"workers": 2}', headers=headers)
    assert answer.status_code == 200


def test_an_unknown_parameter_is_refused_by_name(house: House) -> None:
    answer = house.ask("GET", "/api/v1/jobs?tennant=a", "owner")
    assert answer.status_code == 400
    assert answer.json()["error"] == (
        "'tennant' is no parameter of this request; there are limit, owner, tenant, which"
    )
    assert house.ask("GET", "/api/v1/jobs?tenant=a", "owner").status_code == 200
    assert house.ask("GET", "/health?now=1").status_code == 200
