"""Logs of a node's attempts on a line that breaks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from elastane.engines.local.paths import Layout
from elastane.engines.nodes.log_append import LogAppender
from elastane.engines.nodes.log_parts import LogOffsets, LogPart
from elastane.engines.nodes.log_shipping import LogShipper
from elastane.engines.nodes.log_tail import LogTail


class Ends:
    """A node with two jobs, a head, and a line between them that may be broken."""

    def __init__(self, home: Path) -> None:
        self.home, self.layout, self.up = home, Layout(home / "head"), True
        for job in ("j1", "j2"):
            self.run(job).joinpath("logs").mkdir(parents=True)
            self.layout.records(job).mkdir(parents=True)
            (self.layout.run(job) / "logs").mkdir(parents=True)
        self.head = LogAppender(self.layout)
        (home / "memory").mkdir()
        self.shipper = LogShipper(self.send, home / "memory")

    async def send(self, part: LogPart) -> None:
        if not self.up:
            raise ConnectionResetError
        self.head.append(part)

    def run(self, job: str) -> Path:
        return self.home / "node" / job

    def write(self, text: str, job: str = "j1", worker: str = "w1") -> None:
        with (self.run(job) / "logs" / f"{worker}.log").open("a") as file:
            file.write(text)

    def told(self, job: str = "j1", worker: str = "w1") -> str:
        path = self.layout.run(job) / "logs" / f"{worker}.log"
        return path.read_text() if path.exists() else ""

    def offsets(self, attempt: str) -> LogOffsets:
        return LogOffsets(attempt, self.head.offsets(attempt))


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    return Ends(tmp_path)


def test_logs_of_all_attempts_arrive(ends: Ends) -> None:
    async def play() -> None:
        for job in ("j1", "j2"):
            ends.shipper.begin(f"{job}.1", ends.run(job))
            ends.shipper.begin(f"{job}.1", ends.run(job))
            ends.write(f"hello from {job}\n", job)
        await ends.shipper.once()

    asyncio.run(play())
    assert [ends.told("j1"), ends.told("j2")] == ["hello from j1\n", "hello from j2\n"]


def test_after_a_break_nothing_is_sent_until_the_head_has_said_where_it_is(ends: Ends) -> None:
    async def play() -> None:
        ends.shipper.begin("j1.1", ends.run("j1"))
        ends.write("one\n")
        await ends.shipper.once()
        ends.up = False
        ends.write("two\n")
        await ends.shipper.once()
        ends.up = True
        ends.write("three\n")
        await ends.shipper.once()
        assert ends.told() == "one\n"
        await ends.shipper.resume(ends.offsets("j1.1"))
        await ends.shipper.resume(LogOffsets("j9.1", {}))
        await ends.shipper.once()

    asyncio.run(play())
    assert ends.told() == "one\ntwo\nthree\n"


def test_a_line_that_breaks_behind_what_was_sent_loses_nothing(ends: Ends) -> None:
    async def play() -> None:
        ends.shipper.begin("j1.1", ends.run("j1"))
        ends.write("one\n")
        await ends.shipper.once()
        ends.shipper.line_broke()
        (ends.layout.run("j1") / "logs" / "w1.log").unlink()
        (ends.layout.records("j1") / "shipped" / "w1.json").unlink()
        ends.head = LogAppender(ends.layout)  # as if the last part had never come
        await ends.shipper.resume(ends.offsets("j1.1"))
        await ends.shipper.once()

    asyncio.run(play())
    assert ends.told() == "one\n"


def test_the_end_of_an_attempt_brings_its_last_words(ends: Ends) -> None:
    async def play() -> None:
        ends.shipper.begin("j1.1", ends.run("j1"))
        ends.write("last words")
        await ends.shipper.end("j1.1")
        await ends.shipper.end("j1.1")
        ends.write(", and what nobody waits for")
        await ends.shipper.once()

    asyncio.run(play())
    assert ends.told() == "last words"


def test_last_words_on_a_broken_line_come_when_it_is_back(ends: Ends) -> None:
    async def play() -> None:
        ends.shipper.begin("j1.1", ends.run("j1"))
        ends.up = False
        ends.write("last words")
        await ends.shipper.end("j1.1")
        assert ends.shipper.attempts == ["j1.1"]
        ends.up = True
        await ends.shipper.once()
        assert ends.told() == ""
        await ends.shipper.resume(ends.offsets("j1.1"))

    asyncio.run(play())
    assert ends.told() == "last words"
    assert ends.shipper.attempts == []


def test_an_attempt_that_begins_again_is_followed_again(ends: Ends) -> None:
    async def play() -> None:
        ends.shipper.begin("j1.1", ends.run("j1"))
        ends.shipper.line_broke()
        await ends.shipper.end("j1.1")
        ends.shipper.begin("j1.1", ends.run("j1"))
        ends.write("more")
        await ends.shipper.resume(ends.offsets("j1.1"))
        await ends.shipper.once()

    asyncio.run(play())
    assert ends.told() == "more"
    assert ends.shipper.attempts == ["j1.1"]


def test_logs_are_kept_short_also_while_the_line_is_broken(ends: Ends) -> None:
    seen: list[bool] = []

    class Noting(LogTail):
        def look(self, *, sending: bool = True) -> list[LogPart]:
            seen.append(sending)
            return super().look(sending=sending)

    async def play() -> None:
        shipper = LogShipper(ends.send, None, Noting)
        shipper.begin("j1.1", ends.run("j1"))
        shipper.line_broke()
        ends.write("one\n")
        await shipper.once()
        await shipper.resume(ends.offsets("j1.1"))
        await shipper.once()

    asyncio.run(play())
    assert seen == [False, True]
    assert ends.told() == "one\n"


def test_logs_that_cannot_be_read_cost_nobody_else_theirs(ends: Ends) -> None:
    class Broken(LogTail):
        def look(self, *, sending: bool = True) -> list[LogPart]:
            if "j1" in str(self._run):
                raise OSError(5, "Input/output error")
            return super().look(sending=sending)

    async def play() -> None:
        shipper = LogShipper(ends.send, None, Broken)
        for job in ("j1", "j2"):
            shipper.begin(f"{job}.1", ends.run(job))
            ends.write("hello", job)
        running = asyncio.ensure_future(shipper.run(0.0))
        while not ends.told("j2"):
            await asyncio.sleep(0)
        running.cancel()

    asyncio.run(play())
    assert (ends.told("j1"), ends.told("j2")) == ("", "hello")
