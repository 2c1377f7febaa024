"""Packages over the API: what is sent is bounded, and is what its digest says."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elastane.service.messages import PackagedCode, SharedCode
from service.api.house import ARCHIVE, PACKAGE, SPEC, House

V1 = "/api/v1"
BYTES = {"Content-Type": "application/octet-stream"}
DATA = b"\x00\xff" * 5000
DIGEST = hashlib.sha256(DATA).hexdigest()


def test_what_was_sent_is_there(house: House) -> None:
    assert house.ask("GET", f"{V1}/packages/{DIGEST}", "owner").status_code == 404
    answer = house.ask("PUT", f"{V1}/packages/{DIGEST}", "owner", content=DATA, headers=BYTES)
    assert (answer.status_code, answer.json()) == (201, {"digest": DIGEST, "bytes": len(DATA)})
    assert house.ask("GET", f"{V1}/packages/{DIGEST}", "owner").json()["bytes"] == len(DATA)
    assert house.service.packages[DIGEST] == DATA
    assert [(entry.action, entry.target, entry.outcome) for entry in house.accounts.entries] == [
        ("put_package", DIGEST, "ok")
    ]


def test_another_digest_is_a_mistake_of_the_sender(house: House) -> None:
    answer = house.ask("PUT", f"{V1}/packages/{'a' * 64}", "owner", content=DATA, headers=BYTES)
    assert (answer.status_code, answer.json()["kind"]) == (400, "refused")


@pytest.mark.parametrize("digest", ["a", "A" * 64, "a" * 65, "..%2f" + "a" * 61, "a" * 63 + "%0a"])
def test_only_digests_are_names_of_packages(digest: str, house: House) -> None:
    for method, how in {"GET": {}, "PUT": {"content": DATA, "headers": BYTES}}.items():
        assert house.ask(method, f"{V1}/packages/{digest}", "admin", **how).status_code in (404, 422)


def test_a_body_of_another_type_is_not_read(house: House) -> None:
    for kind in ("application/json", "text/plain", ""):
        answer = house.ask(
            "PUT", f"{V1}/packages/{DIGEST}", "owner", content=DATA, headers={"Content-Type": kind}
        )
        assert answer.status_code == 415
    assert DIGEST not in house.service.packages


def test_too_much_is_refused_before_it_is_read_and_while_it_comes(tmp_path: Path) -> None:
    house = House(tmp_path, package_bytes=len(DATA) - 1)
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while read < 10**9:
            read += 1000
            yield b"x" * 1000

    told = house.ask("PUT", f"{V1}/packages/{DIGEST}", "owner", content=DATA, headers=BYTES)
    untold = house.ask("PUT", f"{V1}/packages/{DIGEST}", "owner", content=endless(), headers=BYTES)
    assert told.status_code == untold.status_code == 413
    assert "at most 9,999 bytes" in told.json()["error"]
    assert read < 10**5


def test_who_falls_silent_is_sent_away(tmp_path: Path) -> None:
    house = House(tmp_path, body_s=0.05)

    async def silent() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    answer = house.ask("PUT", f"{V1}/packages/{DIGEST}", "owner", content=silent(), headers=BYTES)
    assert answer.status_code == 408


def test_a_stranger_sends_nothing(house: House) -> None:
    assert house.ask("PUT", f"{V1}/packages/{DIGEST}", None, content=DATA, headers=BYTES).status_code == 401
    assert house.ask("PUT", f"{V1}/packages/{DIGEST}", "viewer", content=DATA, headers=BYTES).status_code == 403
    assert set(house.service.packages) == {PACKAGE}
    assert house.service.packages[PACKAGE] == ARCHIVE


@pytest.mark.parametrize(
    ("code", "read"),
    [
        (None, None),
        ({"kind": "shared"}, SharedCode()),
        ({"kind": "package", "digest": PACKAGE}, PackagedCode(digest=PACKAGE)),
        (
            {"kind": "package", "digest": PACKAGE, "subdirectory": "a", "top": "/b"},
            PackagedCode(digest=PACKAGE, subdirectory="a", top="/b"),
        ),
    ],
)
def test_a_job_says_where_its_code_comes_from(code: object, read: object, house: House) -> None:
    body = {"spec": SPEC, "directory": "/tmp", "code": code}
    job = house.ask("POST", f"{V1}/jobs", "owner", json=body).json()["id"]
    assert house.service.codes[job] == read


@pytest.mark.parametrize(
    "code",
    [
        {},
        {"kind": "git"},
        {"kind": "package"},
        {"kind": "package", "digest": "x"},
        {"kind": "shared", "path": "/"},
        {"kind": "package", "digest": PACKAGE, "more": 1},
        {"kind": "package", "digest": PACKAGE, "subdirectory": "x" * 5000},
        "package",
    ],
)
def test_code_that_makes_no_sense_is_refused(code: object, house: House) -> None:
    body = {"spec": SPEC, "directory": "/tmp", "code": code}
    assert house.ask("POST", f"{V1}/jobs", "owner", json=body).status_code == 422
