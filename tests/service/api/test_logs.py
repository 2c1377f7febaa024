"""Log reads: the job's own files, all of them, and nothing else on the machine."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from elastane.service.api.log_reader import LogReader
from elastane.service.api.streams import follow_log
from elastane.service.protocol import NotFound
from service.api.fakes import write_log
from service.api.house import FOREIGN_JOB, JOB, House

LOGS = f"/api/v1/jobs/{JOB}/logs"
SECRET = "do not read this"

_UP = ["..", "../..", "../../..", "../../../..", "....//..", "..\\..", "%2e%2e", "..;", ".", "", "w0/..", "~"]
_GOALS = [
    "secret.log",
    "secret",
    "etc/passwd",
    "jobs/j2/logs/1/w0",
    "j2/logs/1/w0.log",
    "w0\0",
    "w0\n",
    "*",
    "w?",
]
TRAVERSALS = [
    form(f"{start}{up}/{goal}")
    for start in ("", "/")
    for up in _UP
    for goal in _GOALS
    for form in (str, lambda text: quote(text, safe=""))
]


def read(house: House, query: str = "", who: str = "owner") -> httpx.Response:
    return house.ask("GET", f"{LOGS}/1/w0{query}", who)


def test_a_part_is_read_and_the_header_says_where_to_go_on(house: House) -> None:
    path = write_log(house.service, JOB, "wörld\n")
    first = read(house, "?limit=8")
    rest = read(house, f"?offset={first.headers['x-next-offset']}")
    assert first.content + rest.content == path.read_bytes()
    assert rest.headers["x-next-offset"] == str(path.stat().st_size)
    assert rest.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_read_behind_the_end_is_empty_and_leads_back_to_the_end(house: House) -> None:
    answer = read(house, "?offset=1000000")
    assert (answer.content, answer.headers["x-next-offset"]) == (b"", "6")


@pytest.mark.parametrize(
    "query", ["?offset=-1", "?limit=0", "?limit=99999999", "?offset=1e3", "?offset=" + "9" * 30]
)
def test_unreasonable_parts_are_refused(query: str, house: House) -> None:
    assert read(house, query).status_code == 422


def test_the_list_tells_every_file(house: House) -> None:
    write_log(house.service, JOB, "again", attempt=2)
    files = house.ask("GET", LOGS, "owner").json()
    assert [(file["attempt"], file["worker"], file["bytes"]) for file in files] == [(1, "w0", 6), (2, "w0", 5)]


def test_no_spelling_of_a_path_reaches_another_file(house: House) -> None:
    assert len(TRAVERSALS) > 400
    home = house.service.home
    (home / "secret.log").write_text(SECRET)
    (home / "jobs" / "secret.log").write_text(SECRET)
    (home / "jobs" / JOB / "secret.log").write_text(SECRET)

    async def ask_all() -> None:
        for text in TRAVERSALS:
            for path in (f"{LOGS}/1/{text}", f"{LOGS}/{text}", f"/api/v1/jobs/{text}/logs/1/w0"):
                answer = await house.asking("GET", path.replace("\0", "%00").replace("\n", "%0A"), "owner")
                assert SECRET not in answer.text
                assert "foreign" not in answer.text
                assert "root:" not in answer.text
                assert answer.status_code in (404, 422), path

    house.desk.callers.wait_s = lambda _: 0.0  # type: ignore[method-assign]
    asyncio.run(ask_all())


@pytest.mark.parametrize("worker", ["..", ".", "w0/../w0", "../1/w0", "-w", "w0\0", "", "w" * 101])
def test_a_path_that_a_service_got_wrong_is_still_not_opened(worker: str, house: House) -> None:
    (house.service.home / "jobs" / "w0.log").write_text(SECRET)
    with pytest.raises((NotFound, ValueError)):
        LogReader(house.service.home / "jobs" / JOB / ".." / f"{worker}.log", JOB)
    with pytest.raises(NotFound):
        LogReader(house.service.home / "jobs" / "w0.log", JOB)


def _symlink_file(home: Path, log: Path) -> None:
    log.unlink()
    log.symlink_to(home / "secret.log")


def _symlink_folder(home: Path, log: Path) -> None:
    log.parent.rename(log.parent.with_name("gone"))
    (home / "1").mkdir()
    (home / "1" / log.name).write_text(SECRET)
    log.parent.symlink_to(home / "1")


def _symlink_job(home: Path, log: Path) -> None:
    (home / "jobs" / JOB).rename(home / "elsewhere")
    (home / "jobs" / JOB).symlink_to(home / "elsewhere")


def _pipe(home: Path, log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def _folder(home: Path, log: Path) -> None:
    log.unlink()
    log.mkdir()


def _device(home: Path, log: Path) -> None:
    log.unlink()
    log.symlink_to("/dev/zero")


@pytest.mark.parametrize("swap", [_symlink_file, _symlink_folder, _symlink_job, _pipe, _folder, _device])
@pytest.mark.parametrize("follow", ["", "?follow=true"])
def test_what_is_no_plain_file_in_the_jobs_folder_does_not_exist(
    swap: object, follow: str, house: House
) -> None:
    (house.service.home / "secret.log").write_text(SECRET)
    swap(house.service.home, house.service.log_path(JOB, 1, "w0"))  # type: ignore[operator]
    assert read(house, follow).status_code == 404


def test_a_socket_in_the_place_of_a_log_does_not_exist(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    log = house.service.log_path(JOB, 1, "w0")
    log.unlink()
    monkeypatch.chdir(log.parent)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(log.name)
        assert read(house).status_code == 404


def test_a_link_swapped_in_while_it_is_read_never_shows_its_target(house: House) -> None:
    log = house.service.log_path(JOB, 1, "w0")
    secret = house.service.home / "secret.log"
    secret.write_text(SECRET)
    link, plain = log.with_name("link"), log.with_name("plain")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            link.symlink_to(secret)
            link.rename(log)
            plain.write_text("hello\n")
            plain.rename(log)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                with LogReader(log, JOB) as reader:
                    seen.add(reader.read(0, 100))
            except NotFound:
                seen.add(b"")
    finally:
        done.set()
        swapping.join()
    assert seen <= {b"hello\n", b""}


async def _followed(house: House, offset: int = 0) -> str:
    parts = follow_log(house.call("owner"), house.service.log_path(JOB, 1, "w0"), JOB, 1, "w0", offset)
    return b"".join([part async for part in parts]).decode()


def test_following_gives_everything_until_the_job_has_ended(tmp_path: Path) -> None:
    async def story() -> str:
        house = House(tmp_path, poll_s=0.001, chunk_bytes=4)
        following = asyncio.ensure_future(_followed(house))
        for number in range(20):
            write_log(house.service, JOB, f"{number}\n")
            await asyncio.sleep(0)
        house.service.change(JOB, "ended", ended_s=1.0)
        write_log(house.service, JOB, "last\n")
        return await following

    assert asyncio.run(story()) == "hello\n" + "".join(f"{n}\n" for n in range(20)) + "last\n"


def test_following_a_log_ends_when_another_leader_writes(tmp_path: Path) -> None:
    house = House(tmp_path, poll_s=0.001)
    write_log(house.service, JOB, "again\n", attempt=2)
    assert asyncio.run(_followed(house, offset=3)) == "lo\n"


def test_following_goes_over_to_the_file_that_takes_the_logs_place(tmp_path: Path) -> None:
    async def story() -> str:
        house = House(tmp_path, poll_s=0.001)
        log = house.service.log_path(JOB, 1, "w0")
        parts = follow_log(house.call("owner"), log, JOB, 1, "w0", 0)
        seen = [await anext(parts)]
        log.rename(log.with_suffix(".old"))
        write_log(house.service, JOB, "fresh\n")
        seen.append(await anext(parts))
        log.write_text("new\n")  # emptied and written again
        seen.append(await anext(parts))
        house.service.change(JOB, "ended", ended_s=1.0)
        return b"".join([*seen, *[part async for part in parts]]).decode()

    assert asyncio.run(story()) == "hello\nfresh\nnew\n"


@pytest.mark.parametrize("how", ["revoked", "closing"])
def test_following_ends_with_the_token_and_with_the_server(how: str, tmp_path: Path) -> None:
    async def story() -> str:
        house = House(tmp_path, poll_s=0.001)
        following = asyncio.ensure_future(_followed(house))
        await asyncio.sleep(0)
        house.accounts.revoke_token("of-owner") if how == "revoked" else house.desk.closing.set()
        return await asyncio.wait_for(following, 30)

    assert asyncio.run(story()) in ("", "hello\n")


def test_a_read_leaves_no_file_open(house: House) -> None:
    house.ask("GET", f"{LOGS}/1/w0", "owner")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for query in ("", "?offset=3", "?offset=-1"):
        read(house, query)
    house.ask("GET", f"/api/v1/jobs/{FOREIGN_JOB}/logs/1/w0", "owner")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
