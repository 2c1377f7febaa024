"""Events as they happen: each once and in order, for whom they are, from where a client left off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elastane.service.api.streams import send_events
from service.api.house import FOREIGN_JOB, JOB, House


def parsed(text: bytes) -> list[tuple[int, str]]:
    """(id, kind) of every event; blocks without data only move the id on."""
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((int(fields["id"]), json.loads(fields["data"])["kind"]))
    return found


async def until(stream: AsyncIterator[bytes], sign: bytes) -> bytes:
    """What a stream sends up to the part with a sign."""
    text = b""
    while sign not in text:
        text += await asyncio.wait_for(anext(stream), 30)
    return text


def test_what_was_and_what_comes_is_sent_once_and_in_order(house: House) -> None:
    async def story() -> list[tuple[int, str]]:
        stream = send_events(house.call("admin"), 0)
        text = await until(stream, b"id: 2\n\n")
        waiting = asyncio.ensure_future(until(stream, b"id: 3\n\n"))
        await asyncio.sleep(0)
        house.service.change(JOB, "scaled")
        return parsed(text + await waiting)

    assert asyncio.run(story()) == [(1, "submitted"), (2, "submitted"), (3, "scaled")]


@pytest.mark.parametrize("entries", [0, 3, 500, 1200])
def test_who_does_not_follow_gets_all_there_is_and_then_the_end(entries: int, house: House) -> None:
    for _ in range(entries):
        house.service.happened("round")
    answer = house.ask("GET", "/api/v1/events?after=2&follow=false", "admin")
    assert [number for number, _ in parsed(answer.content)] == list(range(3, entries + 3))


def test_a_log_longer_than_one_batch_is_sent_whole(house: House) -> None:
    for _ in range(1200):
        house.service.happened("round")

    async def story() -> list[tuple[int, str]]:
        return parsed(await until(send_events(house.call("admin"), 2), b"id: 1202\n\n"))

    assert [number for number, _ in asyncio.run(story())] == list(range(3, 1203))


def test_nobody_sees_events_of_another_tenants_jobs_nor_what_a_plan_says(house: House) -> None:
    house.service.happened("planned", None, grants={JOB: 1, FOREIGN_JOB: 2})

    async def story(who: str) -> bytes:
        return await until(send_events(house.call(who), 0), b"id: 3\n\n")

    text = asyncio.run(story("viewer"))
    assert parsed(text) == [(1, "submitted"), (3, "planned")]
    assert FOREIGN_JOB.encode() not in text
    assert FOREIGN_JOB.encode() in asyncio.run(story("admin"))


def test_events_one_may_not_see_still_move_the_resume_point(house: House) -> None:
    house.service.change(FOREIGN_JOB, "scaled")

    async def story() -> bytes:
        return await until(send_events(house.call("viewer"), 2), b"id: 3\n\n")

    assert parsed(asyncio.run(story())) == []


def test_a_quiet_stream_shows_that_it_lives(tmp_path: Path) -> None:
    house = House(tmp_path, heartbeat_s=0.0)

    async def story() -> None:
        await until(send_events(house.call("viewer"), 2), b": still here\n\n")

    asyncio.run(story())


@pytest.mark.parametrize("how", ["revoked", "closing"])
def test_a_stream_ends_with_its_token_and_with_the_server(how: str, tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, recheck_s=0.01)
        stream = send_events(house.call("owner"), 2)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0)
        house.accounts.revoke_token("of-owner") if how == "revoked" else house.desk.closing.set()
        assert await asyncio.wait_for(waiting, 30) is None

    asyncio.run(story())


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 20, "0x3"])
def test_a_resume_point_that_is_no_number_is_refused(last: str, house: House) -> None:
    answer = house.ask("GET", "/api/v1/events", "owner", headers={"Last-Event-ID": last})
    assert answer.status_code == 400
