"""Every route × everybody: exactly the allowed set.  The table below is written by hand, not taken from the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter

from elastane.service.api.permissions import PERMISSIONS
from elastane.service.api.route import GuardedRoute
from elastane.service.messages import Ahead, Eta
from service.api.house import ARCHIVE, FOREIGN_JOB, JOB, PACKAGE, SPEC, House, status_of

CALLERS = (None, "viewer", "owner", "other", "stranger", "admin")
V1 = "/api/v1"
SUBMISSION = {"spec": SPEC, "directory": "/tmp"}

READ = (401, 200, 200, 200, 200, 200)
READ_JOB = (401, 200, 200, 200, 404, 200)
CHANGE_JOB = (401, 403, 200, 403, 404, 200)
ADMIN_200 = (401, 403, 403, 403, 403, 200)
ADMIN_201 = (401, 403, 403, 403, 403, 201)
ADMIN_204 = (401, 403, 403, 403, 403, 204)

# route: method, path, body, statuses of (nobody, viewer, owner, other of the tenant, user of another tenant, admin)
EXPECTED: dict[str, tuple[str, str, Any, tuple[int, ...]]] = {
    "health": ("GET", "/health", None, (200, 200, 200, 200, 200, 200)),
    "metrics": ("GET", "/metrics", None, READ),
    "openapi": ("GET", f"{V1}/openapi.json", None, READ),
    "info": ("GET", f"{V1}/info", None, READ),
    "whoami": ("GET", f"{V1}/whoami", None, READ),
    "events": ("GET", f"{V1}/events", None, READ),
    "submit_job": ("POST", f"{V1}/jobs", SUBMISSION, (401, 403, 201, 201, 201, 201)),
    "show_package": ("GET", f"{V1}/packages/{PACKAGE}", None, (401, 403, 200, 200, 200, 200)),
    "put_package": ("PUT", f"{V1}/packages/{PACKAGE}", ARCHIVE, (401, 403, 201, 201, 201, 201)),
    "list_jobs": ("GET", f"{V1}/jobs", None, READ),
    "show_job": ("GET", f"{V1}/jobs/{JOB}", None, READ_JOB),
    "why_job": ("GET", f"{V1}/jobs/{JOB}/why", None, READ_JOB),
    "job_events": ("GET", f"{V1}/jobs/{JOB}/events", None, READ_JOB),
    "list_logs": ("GET", f"{V1}/jobs/{JOB}/logs", None, READ_JOB),
    "read_log": ("GET", f"{V1}/jobs/{JOB}/logs/1/w0", None, READ_JOB),
    "cancel_job": ("POST", f"{V1}/jobs/{JOB}/cancel", None, CHANGE_JOB),
    "suspend_job": ("POST", f"{V1}/jobs/{JOB}/suspend", None, CHANGE_JOB),
    "resume_job": ("POST", f"{V1}/jobs/{JOB}/resume", None, CHANGE_JOB),
    "scale_job": ("POST", f"{V1}/jobs/{JOB}/scale", {"workers": 2}, CHANGE_JOB),
    "move_job": ("POST", f"{V1}/jobs/{JOB}/move", {"node": "n1"}, CHANGE_JOB),
    "list_nodes": ("GET", f"{V1}/nodes", None, READ),
    "drain_node": ("POST", f"{V1}/nodes/n0/drain", None, ADMIN_200),
    "undrain_node": ("POST", f"{V1}/nodes/n0/undrain", None, ADMIN_200),
    "show_policy": ("GET", f"{V1}/policy", None, READ),
    "set_policy": ("PUT", f"{V1}/policy", {"policy": "tiresias"}, ADMIN_200),
    "set_shadow": ("PUT", f"{V1}/policy/shadow", {"policy": None}, ADMIN_200),
    "list_quotas": ("GET", f"{V1}/quotas", None, READ),
    "list_pools": ("GET", f"{V1}/pools", None, READ),
    "set_pool": ("PUT", f"{V1}/pools/spot", {"most": 2}, ADMIN_200),
    "set_quota": ("PUT", f"{V1}/quotas/a", {"slots": 2}, ADMIN_200),
    "list_users": ("GET", f"{V1}/users", None, ADMIN_200),
    "add_user": ("POST", f"{V1}/users", {"name": "new"}, ADMIN_201),
    "remove_user": ("DELETE", f"{V1}/users/viewer", None, ADMIN_204),
    "set_role": ("PUT", f"{V1}/users/viewer/role", {"role": "user"}, ADMIN_200),
    "list_tokens": ("GET", f"{V1}/tokens", None, READ),
    "new_token": ("POST", f"{V1}/tokens", {"label": "x"}, (401, 403, 201, 201, 201, 201)),
    "revoke_token": ("DELETE", f"{V1}/tokens/of-owner", None, (401, 403, 204, 404, 404, 204)),
    "audit_log": ("GET", f"{V1}/audit", None, ADMIN_200),
}
CASES = [(name, caller) for name in EXPECTED for caller in CALLERS]


@pytest.mark.parametrize(("name", "caller"), CASES)
def test_each_route_lets_in_exactly_whom_it_should(name: str, caller: str | None, house: House) -> None:
    method, path, body, statuses = EXPECTED[name]
    raw = isinstance(body, bytes)
    sent = body if raw or body is None else json.dumps(body).encode()
    kind = b"application/octet-stream" if raw else b"application/json"
    token = f"t-{caller}" if caller else None
    assert status_of(house.app, method, path, token, sent, kind) == statuses[CALLERS.index(caller)]


def operations(house: House) -> set[tuple[str, str, str]]:
    described = house.app.openapi()["paths"]
    return {
        (operation["operationId"], method.upper(), path)
        for path, methods in described.items()
        for method, operation in methods.items()
    }


def test_every_route_of_the_application_is_in_the_table(house: House) -> None:
    assert {name for name, _, _ in operations(house)} == set(EXPECTED) == set(PERMISSIONS)


def test_the_table_asks_each_route_by_its_own_method_and_path(house: House) -> None:
    for name, method, path in operations(house):
        asked_method, asked_path, *_ = EXPECTED[name]
        assert (asked_method, asked_path.count("/")) == (method, path.count("/"))


def test_a_route_without_a_row_in_the_table_cannot_be_built() -> None:
    async def forgotten() -> None: ...

    with pytest.raises(KeyError):
        APIRouter(route_class=GuardedRoute).get("/forgotten")(forgotten)


READS = [name for name, (method, path, *_) in EXPECTED.items() if f"/jobs/{JOB}" in path]


@pytest.mark.parametrize("name", READS)
def test_a_job_of_another_tenant_is_answered_exactly_like_one_that_is_not_there(
    name: str, house: House
) -> None:
    method, path, body, _ = EXPECTED[name]
    foreign = house.ask(method, path.replace(JOB, FOREIGN_JOB), "owner", json=body)
    unknown = house.ask(method, path.replace(JOB, "j9"), "owner", json=body)
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.text.replace(FOREIGN_JOB, "j9") == unknown.text
    assert foreign.headers == unknown.headers


@pytest.mark.parametrize(
    "near", ["J1", "j", "j1x", "j1%00", "j1%20", "j1%0a", "j1/", "%6a1%2f", "j1;", "j1%2fj2"]
)
def test_ids_match_exactly_or_not_at_all(near: str, house: House) -> None:
    assert house.ask("GET", f"{V1}/jobs/{near}", "admin").status_code == 404


def test_lists_show_the_askers_tenant_only(house: House) -> None:
    def listed(who: str, query: str = "") -> list[str]:
        return [job["id"] for job in house.ask("GET", f"{V1}/jobs{query}", who).json()]

    assert listed("viewer") == listed("other") == [JOB]
    assert listed("stranger") == [FOREIGN_JOB]
    assert listed("admin") == [JOB, FOREIGN_JOB]
    assert listed("admin", "?tenant=b") == [FOREIGN_JOB]
    assert house.ask("GET", f"{V1}/jobs?tenant=b", "owner").status_code == 403


def test_a_job_gets_its_submitters_tenant_and_no_other(house: House) -> None:
    def submit(who: str, **spec: Any) -> Any:
        return house.ask("POST", f"{V1}/jobs", who, json={"spec": {**SPEC, **spec}, "directory": "/tmp"})

    made = submit("owner").json()["id"]
    assert house.service.details[made].tenant == "a"
    assert submit("owner", tenant="a").status_code == 201
    assert submit("owner", tenant="b").status_code == 403
    assert submit("owner", tenant=None).status_code == submit("owner", tenant=["a"]).status_code == 422
    made = submit("admin", tenant="b").json()["id"]
    assert house.service.details[made].tenant == "b"


def test_environment_variables_are_shown_to_their_owner_and_admins_only(house: House) -> None:
    def env(who: str) -> Any:
        return house.ask("GET", f"{V1}/jobs/{JOB}", who).json()["spec"]["env"]

    assert env("owner") == env("admin") == {"KEY": "secret"}
    assert env("other") == env("viewer") == {"KEY": "(hidden)"}
    seen = {
        who: house.ask("GET", f"{V1}/jobs/{JOB}", who).json()["spec"]["exported"] for who in ("owner", "other")
    }
    assert seen == {"owner": {"PATH": "/own/bin"}, "other": {"PATH": "(hidden)"}}


def test_what_is_said_about_the_queue_and_nodes_names_no_job_of_another_tenant(house: House) -> None:
    house.service.change(FOREIGN_JOB, "moved", nodes={"n0": 2})
    why = house.ask("GET", f"{V1}/jobs/{JOB}/why", "owner")
    nodes = house.ask("GET", f"{V1}/nodes", "owner")
    assert "stranger" not in why.text
    assert FOREIGN_JOB not in why.text + nodes.text
    assert nodes.json()[0]["used"] == 2
    assert why.json()["ahead"][0]["workers"] == 1
    assert FOREIGN_JOB in house.ask("GET", f"{V1}/nodes", "admin").text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        EXPECTED[name][:3]
        for name in EXPECTED
        if name in ("list_jobs", "show_job") or EXPECTED[name][3] == CHANGE_JOB
    ],
)
def test_no_answer_about_a_job_names_those_of_other_tenants_that_it_waits_for(
    method: str, path: str, body: Any, house: House
) -> None:
    end = Eta(high_s=987654.0, basis="pace")
    foreign = Ahead(id=FOREIGN_JOB, name="hush", owner="stranger", workers=2, state="running", eta=end)
    house.service.change(JOB, "moved", waits_for=[foreign])
    told = {who: house.ask(method, path, who, json=body).text for who in ("owner", "admin")}
    for word in ("hush", "stranger", "987654", f'"{FOREIGN_JOB}"'):
        assert word not in told["owner"]
    assert "(a job of another tenant)" in told["owner"]
    assert "hush" in told["admin"] or "cancel" in path


def test_tokens_of_others_are_neither_shown_nor_made_nor_revoked(house: House) -> None:
    mine = house.ask("GET", f"{V1}/tokens", "owner")
    assert [token["user"] for token in mine.json()] == ["owner"]
    assert "t-owner" not in mine.text
    assert house.ask("GET", f"{V1}/tokens?user=other", "owner").status_code == 403
    assert house.ask("POST", f"{V1}/tokens", "owner", json={"user": "admin"}).status_code == 403
    assert house.ask("DELETE", f"{V1}/tokens/of-other", "owner").status_code == 404
    assert house.ask("POST", f"{V1}/tokens", "admin", json={"user": "other"}).json()["user"] == "other"


@pytest.mark.parametrize("maker", ["owner", "admin"])
def test_a_token_makes_none_that_outlives_it(maker: str, house: House) -> None:
    hour = house.ask("POST", f"{V1}/tokens", maker, json={"lifetime_s": 3600}).json()
    bearer = {"Authorization": f"Bearer {hour['token']}"}

    def made(**wish: float | None) -> httpx.Response:
        return house.ask("POST", f"{V1}/tokens", headers=bearer, json=wish)

    assert made().json()["expires_s"] == hour["expires_s"]
    assert made(lifetime_s=None).json()["expires_s"] == hour["expires_s"]
    assert made(lifetime_s=60).json()["expires_s"] < hour["expires_s"]
    assert made(lifetime_s=7200).status_code == 403
    assert house.ask("POST", f"{V1}/tokens", maker, json={}).json()["expires_s"] is None


def test_an_admin_cannot_lock_themselves_out(house: House) -> None:
    assert house.ask("DELETE", f"{V1}/users/admin", "admin").status_code == 409
    assert house.ask("PUT", f"{V1}/users/admin/role", "admin", json={"role": "viewer"}).status_code == 409


def test_a_revoked_token_opens_nothing_at_once(house: House) -> None:
    assert house.ask("GET", f"{V1}/info", "owner").status_code == 200
    house.ask("DELETE", f"{V1}/tokens/of-owner", "admin")
    assert house.ask("GET", f"{V1}/info", "owner").status_code == 401


@pytest.mark.parametrize(
    "header", ["", "t-owner", "Basic t-owner", "Bearer", "Bearer t-owner x", "Bearer  ", "Bearer " + "x" * 600]
)
def test_only_a_bearer_token_in_its_header_counts(header: str, tmp_path: Path) -> None:
    house = House(tmp_path)
    answer = house.ask(
        "GET", f"{V1}/info?token=t-owner&access_token=t-owner", headers={"Authorization": header}
    )
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_every_write_is_in_the_audit_log_with_its_outcome(house: House) -> None:
    house.ask("POST", f"{V1}/jobs/{JOB}/cancel", "other")
    house.ask("POST", f"{V1}/jobs/{JOB}/cancel", "owner")
    house.ask("POST", f"{V1}/jobs/{JOB}/cancel", "owner")
    house.ask("POST", f"{V1}/jobs", "owner", json=SUBMISSION)
    house.ask("GET", f"{V1}/jobs", "owner")
    house.ask("POST", f"{V1}/jobs/{JOB}/cancel")
    log = house.ask("GET", f"{V1}/audit", "admin").json()
    assert [(entry["user"], entry["action"], entry["target"], entry["outcome"]) for entry in log] == [
        ("other", "cancel_job", JOB, "forbidden"),
        ("owner", "cancel_job", JOB, "ok"),
        ("owner", "cancel_job", JOB, "conflict"),
        ("owner", "submit_job", "j3", "ok"),
    ]
