"""Strangers who send half of a request, too much of one, or many at once, against the real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from elastane.service.api.app import create_app
from elastane.service.api.server import serve
from service.api.house import House

PATIENCE_S = 60.0
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Door:
    """Opens plain connections to a server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: list[asyncio.StreamWriter] = []

    async def line(self, *sent: bytes) -> Line:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(self.url).port)
        self._open.append(writer)
        for data in sent:
            writer.write(data)
        return reader, writer

    async def healthy(self) -> bool:
        reader, _ = await self.line(HEAD + b"Connection: close\r\n\r\n")
        return (await rest(reader)).startswith(b"HTTP/1.1 200")

    def close(self) -> None:
        for writer in self._open:
            writer.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side has closed."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionResetError:  # it had not read all we sent
        return b""


def serving(home: Path, story: Callable[[Door], Awaitable[object]], **settings: object) -> None:
    """Run a story against a real server; nothing may be left waiting after it."""

    async def run() -> None:
        house = House(home, anonymous_burst=10**6, burst=10**6, **settings)
        app = create_app(house.service, house.accounts, house.settings)
        async with serve(app, "127.0.0.1", 0) as url:
            door = Door(url)
            try:
                await story(door)
            finally:
                door.close()

    asyncio.run(run())


def problem(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/json" in head
    found = json.loads(body)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "endless",
    [
        HEAD + b"X-Long: ",
        b"GET /",
        HEAD,
        b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ",
    ],
    ids=["one header", "address", "many headers", "trailer"],
)
def test_a_head_without_end_is_refused_soon(endless: bytes, tmp_path: Path) -> None:
    more = b"".join(b"x-%d: y\r\n" % n for n in range(500)) if endless == HEAD else b"x" * 4096

    async def story(door: Door) -> None:
        reader, writer = await door.line(endless)
        answering = asyncio.ensure_future(rest(reader))
        sent = 0
        while not answering.done() and sent < 8_000_000:
            writer.write(more)
            sent += len(more)
            try:
                await writer.drain()
            except ConnectionError:
                break
            await asyncio.sleep(0)
        answer = await answering
        assert sent < 8_000_000
        assert b"HTTP/1.1 200" not in answer
        assert await door.healthy()

    serving(tmp_path, story)


def test_a_head_that_is_too_large_is_told_so_and_one_that_is_not_is_answered(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        reader, _ = await door.line(HEAD + b"X-Long: " + b"x" * 200_000)
        answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert "32,768 bytes" in str(problem(answer)["error"])
        reader, _ = await door.line(HEAD + b"X-Long: " + b"x" * 32_000 + b"\r\nConnection: close\r\n\r\n")
        assert (await rest(reader)).startswith(b"HTTP/1.1 200 ")

    serving(tmp_path, story)


def test_a_body_is_not_counted_as_head(tmp_path: Path) -> None:
    async def run() -> None:
        house = House(tmp_path)
        app = create_app(house.service, house.accounts, house.settings)
        async with serve(app, "127.0.0.1", 0) as url, httpx.AsyncClient(base_url=url) as client:
            client.headers["Authorization"] = "Bearer t-owner"
            job = {"command": "python train.py", "env": {f"LONG_{n}": "x" * 30_000 for n in range(15)}}
            for _ in range(2):  # on one connection
                answer = await client.post("/api/v1/jobs", json={"spec": job, "directory": "/tmp"}, timeout=60)
                assert answer.status_code == 201, answer.text

    asyncio.run(run())


def test_half_a_request_ends_by_itself_and_so_does_none(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        half, nothing = await door.line(HEAD), await door.line()
        answered, _ = await door.line(HEAD + b"\r\n" + HEAD)  # a whole one, and half of another
        assert problem(await rest(half[0]))["kind"] == "slow"
        assert await rest(nothing[0]) == b""
        assert (await rest(answered)).startswith(b"HTTP/1.1 200 ")

    serving(tmp_path, story, head_s=2.0)


def test_who_sends_a_head_letter_by_letter_gets_no_more_time(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        reader, writer = await door.line(HEAD)
        answering = asyncio.ensure_future(rest(reader))
        while not answering.done():
            writer.write(b"x")
            await asyncio.sleep(0.02)
        await answering

    serving(tmp_path, story, head_s=0.3)


def test_a_body_that_nobody_reads_does_not_hold_its_connection(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        reader, writer = await door.line(
            b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        answering = asyncio.ensure_future(rest(reader))  # 401 at once: nobody is asked to send a body
        while not answering.done():
            writer.write(b"1\r\nx\r\n")
            await asyncio.sleep(0.02)
        await answering

    serving(tmp_path, story, head_s=0.3)


def test_strangers_who_hold_all_connections_keep_nobody_out(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        lines = [await door.line(HEAD) for _ in range(60)]
        assert [await door.healthy() for _ in range(5)] == [True] * 5
        assert not any(reader.at_eof() for reader, _ in lines[-10:])
        gone = await asyncio.gather(*(rest(reader) for reader, _ in lines[:30]))
        assert all(answer == b"" or problem(answer)["kind"] == "slow" for answer in gone)

    serving(tmp_path, story, connections=20, head_s=600.0)


def test_where_all_are_served_one_more_is_told_to_come_again(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        asked = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t-owner\r\n\r\n"
        followers = [await door.line(asked) for _ in range(3)]
        for reader, _ in followers:
            await asyncio.wait_for(reader.readuntil(b"retry: 1000"), PATIENCE_S)
        reader, _ = await door.line()
        answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert problem(answer)["kind"] == "busy"
        followers[0][1].close()
        while not await door.healthy():
            await asyncio.sleep(0.05)

    serving(tmp_path, story, connections=3)


def test_a_user_follows_only_so_much_at_once(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        asked = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t-%s\r\n\r\n"
        first, second = await door.line(asked % b"owner"), await door.line(asked % b"owner")
        for reader, _ in (first, second):
            await asyncio.wait_for(reader.readuntil(b"retry: 1000"), PATIENCE_S)
        third, _ = await door.line(asked % b"owner")
        assert b"HTTP/1.1 429 " in await asyncio.wait_for(
            third.readuntil(b"under way and may have 2"), PATIENCE_S
        )
        other, _ = await door.line(asked % b"other")
        await asyncio.wait_for(other.readuntil(b"retry: 1000"), PATIENCE_S)
        first[1].close()
        info = {"Authorization": "Bearer t-owner"}
        async with httpx.AsyncClient(base_url=door.url, headers=info, timeout=PATIENCE_S) as client:
            while (await client.get("/api/v1/info")).status_code != 200:
                await asyncio.sleep(0.05)

    serving(tmp_path, story, under_way_per_user=2)


def test_many_requests_before_an_answer_are_refused(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        reader, _ = await door.line((HEAD + b"\r\n") * 5000)
        assert (await rest(reader)).count(b"HTTP/1.1 200") < 500
        assert await door.healthy()

    serving(tmp_path, story)
