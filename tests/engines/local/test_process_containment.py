"""Processes that fork twice, begin a session and clear their environment end with their attempt (H4)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elastane.engines.contract import Ending, Launch
from elastane.engines.local import process_descent
from elastane.engines.local.cgroups import SWITCH, Cgroup, cgroups_of, limits_memory
from elastane.engines.local.json_files import Lock, read_json
from elastane.engines.local.paths import LOCK, Layout
from elastane.engines.local.process_containment import end_everything, end_leftovers
from engines.local.house import House, house, live

ESCAPING = Path(__file__).parent / "scripts" / "escaping.py"


def _has_cgroups() -> bool:
    place = cgroups_of(Path("/nowhere"))
    return place is not None and Cgroup(place).end()


NEEDS_CGROUPS = pytest.mark.skipif(not _has_cgroups(), reason="no cgroup v2 to write to")


@pytest.fixture(params=[pytest.param("on", marks=NEEDS_CGROUPS), "off"])
def enclosed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With cgroups, and by descent alone."""
    monkeypatch.setenv(SWITCH, request.param)
    return str(request.param)


class Escape:
    """One job on an engine whose processes try to get away."""

    def __init__(self, living: House, folder: Path, seconds: float = 600.0, kind: str = "command") -> None:
        folder.mkdir()
        self.living, self.folder = living, folder
        self.launch: Launch = living.launch(
            "j1", 1, "/usr/bin/env", sys.executable, str(ESCAPING), str(folder), str(seconds), kind=kind
        )
        living.want(self.launch, {"n0": 1})

    async def until_out(self) -> None:
        await self.living.until(lambda: len(self.pids()) == 3)
        assert not any(process_descent.ended(pid) for pid in self.pids())

    def pids(self) -> list[int]:
        return [int(path.read_text()) for path in self.folder.iterdir() if path.name.isdigit()]

    def all_gone(self) -> bool:
        return all(process_descent.ended(pid) for pid in self.pids())


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 600.0])
def test_nothing_is_left_when_an_attempt_has_ended_or_is_cancelled(
    tmp_path: Path, enclosed: str, seconds: float
) -> None:
    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            escape = Escape(living, tmp_path / "pids", seconds)
            if seconds:
                await escape.until_out()
                living.end(escape.launch, Ending.CANCEL)
            await living.until(lambda: living.over(escape.launch) is not None)
            assert len(escape.pids()) == 3
            assert escape.all_gone()

    live(story)


@pytest.mark.slow
def test_nothing_is_left_when_the_engine_is_shut_down(tmp_path: Path, enclosed: str) -> None:
    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            escape = Escape(living, tmp_path / "pids")
            await escape.until_out()
        assert escape.all_gone()
        place = cgroups_of(tmp_path / "home")
        if place is not None:
            assert [entry for entry in place.iterdir() if entry.is_dir()] == []
            place.rmdir()

    live(story)


def _supervisor(living: House, escape: Escape) -> int | None:
    return Lock(escape.launch.folder / LOCK).holder()


def _agent(living: House, escape: Escape) -> int | None:
    facts = read_json(Layout(living.home).agent("n0"))
    return int(facts["pid"]) if facts else None


@pytest.mark.parametrize("victim", [_supervisor, _agent])
def test_nothing_is_left_after_kill_9_of(
    tmp_path: Path, enclosed: str, victim: Callable[[House, Escape], int | None]
) -> None:
    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            escape = Escape(living, tmp_path / "pids")
            await escape.until_out()
            notes = Layout(living.home).node("n0") / "kin.json"
            if enclosed == "off":  # written a few times a second
                await living.until(lambda: set(map(str, escape.pids())) <= (read_json(notes) or {}).keys())
            pid = victim(living, escape)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await living.until(escape.all_gone)

    live(story)


@NEEDS_CGROUPS
def test_groups_of_another_home_are_left_alone(tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    groups = []
    for home in homes:
        place = cgroups_of(home)
        assert place is not None
        groups.append(Cgroup(place / "n0" / "j1.1"))
        assert groups[-1].make()
    sleepers = [subprocess.Popen(["sleep", "600"]) for _ in homes]
    try:
        for group, sleeper in zip(groups, sleepers, strict=True):
            assert group.take_in(sleeper.pid)
        end_leftovers(Layout(homes[0]), "n0")
        assert sleepers[0].wait() == -signal.SIGKILL
        assert sleepers[1].poll() is None
        assert groups[1].processes() == [sleepers[1].pid]
    finally:
        for group, sleeper in zip(groups, sleepers, strict=True):
            sleeper.kill()
            sleeper.wait()
            assert Cgroup(group.place.parent.parent).end()


def test_memory_is_limited_where_the_controller_is_there(tmp_path: Path) -> None:
    """On a folder that looks like a cgroup: here the controller may be missing."""
    place = tmp_path / "elastane-x"
    place.mkdir()
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert limits_memory(place)
    assert (place / "cgroup.subtree_control").read_text() == "+memory"
    assert Cgroup(place).limit_memory(1 << 30)
    assert (place / "memory.max").read_text() == str(1 << 30)
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    assert not limits_memory(place)
    assert not limits_memory(None)


@pytest.mark.parametrize("junk", ["file", "link", "pipe", "folders"])
def test_junk_among_the_nodes_of_a_home_keeps_nothing_from_being_ended(tmp_path: Path, junk: str) -> None:
    layout = Layout(tmp_path / "home")
    place = layout.node("x")
    place.parent.mkdir(parents=True)
    if junk == "file":
        place.write_text("junk")
    elif junk == "link":
        place.symlink_to(tmp_path / "nowhere")
    elif junk == "pipe":
        os.mkfifo(place)
    else:
        for name in ("kin.json", "cgroups", "agent.lock"):
            (place / name).mkdir(parents=True)
    end_everything(layout)
