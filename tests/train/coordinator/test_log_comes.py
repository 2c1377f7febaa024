"""The log of a worker on another machine arrives a little after its exit: its last words are waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from train.coordinator.hosts import FakeHost
from train.coordinator.test_leases import Line, Lines, _tell

WORDS = "ValueError: the data are gone"


async def mute(lines: Lines) -> tuple[Line, FakeHost]:
    """A worker that has said nothing, and has ended badly."""
    host = cast("FakeHost", lines.server.host)
    host.coming = asyncio.get_running_loop().create_future()
    fork_server = await lines.fork_server("n1")
    await fork_server.hear("spawn")
    fork_server.say(type="started", worker="w1", pid=1)
    fork_server.say(type="exited", worker="w1", code=1)
    await lines.until(lambda: "w1" in lines.server._ends._reading)
    return fork_server, host


def test_last_words_are_read_once_they_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(lines: Lines) -> None:
        fork_server, host = await mute(lines)
        heard = list[tuple[str, str]]()
        monkeypatch.setattr(lines.coordinator, "said_goodbye", lambda *words: heard.append(words))
        lines.server._ends._exited("w1")  # said again: it is waited for already
        assert lines.coordinator.workers["w1"].alive
        assert host.coming is not None
        host.words = WORDS
        host.coming.set_result(None)
        await lines.until(
            lambda: "w1" not in lines.coordinator.workers or not lines.coordinator.workers["w1"].alive
        )
        assert heard == [("w1", WORDS)]
        fork_server.writer.close()

    _tell(tmp_path, story, workers=1)


def test_a_lost_node_does_not_hide_how_a_worker_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(lines: Lines) -> None:
        fork_server, host = await mute(lines)
        heard = list[tuple[str, str]]()
        monkeypatch.setattr(lines.coordinator, "said_goodbye", lambda *words: heard.append(words))
        host.words = WORDS
        fork_server.writer.close()
        await lines.until(
            lambda: "w1" not in lines.coordinator.workers or not lines.coordinator.workers["w1"].alive
        )
        assert heard == [("w1", WORDS)]
        assert not lines.server._ends._reading

    _tell(tmp_path, story, workers=1)
