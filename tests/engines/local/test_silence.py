"""Nodes that fall silent without dying: noticed, replaced, and welcomed back without what they had."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from elastane.engines.local import agent_client
from elastane.engines.local.attempt_process import _hello_s
from elastane.train.errors import TrainError
from elastane.train.reports.events import Stepped, WorkerLost
from engines.local.house import SCRIPTS, House, house, live


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def agent_pid(living: House, node: str) -> int:
    pid = living.engine.facts()["agents"][node]["pid"]
    assert isinstance(pid, int)
    return pid


@pytest.mark.slow
def test_a_frozen_node_is_lost_survivors_go_on_and_it_returns_without_its_old_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_client, "_SILENCES", 1000)  # it shall come back by itself
    out = tmp_path / "counts"

    async def story() -> None:
        async with house(tmp_path) as living:
            script = str(SCRIPTS / "counting.py")
            job = living.launch("j1", 1, sys.executable, script, str(out), "--pause=0.01")
            living.want(job, {"n0": 1, "n1": 1})
            await living.until(lambda: living.on(job) == {"n0": 1, "n1": 1})
            (stale,) = [w.pid for w in living.engine.processes(job.attempt) if w.node == "n1"]
            frozen = family(agent_pid(living, "n1"))
            assert stale in frozen
            signal_all(frozen, signal.SIGSTOP)
            try:
                await living.until(lambda: "n1" not in living.engine.nodes())
                await living.until(lambda: bool(living.events(WorkerLost, "j1")))
                seen = len(living.events(Stepped, "j1"))
                await living.until(lambda: len(living.events(Stepped, "j1")) > seen)
                assert "n0" in living.engine.nodes()
                living.want(job, {"n0": 2})
            finally:
                signal_all(frozen, signal.SIGCONT)
            await living.until(lambda: "n1" in living.engine.nodes())
            assert stale not in family(agent_pid(living, "n1"))
            await living.until(lambda: living.on(job) == {"n0": 2})
            living.want(job, {"n0": 1, "n1": 1})
            await living.until(lambda: living.on(job) == {"n0": 1, "n1": 1})
            (living.home / "jobs" / "j1" / "run" / "enough").touch()
            await living.until(lambda: living.over(job) is not None)

    live(story)
    assert set(out.read_text().split()) == {"1"}


@pytest.mark.slow
def test_an_agent_that_stays_frozen_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_client, "LEASE_S", 3.0)

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            old = agent_pid(living, "n0")
            os.kill(old, signal.SIGSTOP)
            await living.until(lambda: "n0" not in living.engine.nodes())
            await living.until(lambda: "n0" in living.engine.nodes())
            assert agent_pid(living, "n0") != old

    live(story)


@pytest.mark.slow
def test_a_frozen_agent_does_not_outlive_the_engine(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            os.kill(agent_pid(living, "n0"), signal.SIGSTOP)

    live(story)


def test_a_job_may_say_how_long_its_imports_take() -> None:
    assert (_hello_s(None), _hello_s("1800")) == (600.0, 1800.0)
    for nonsense in ("soon", "0", "-1", "nan"):
        with pytest.raises(TrainError, match="ELASTANE_HELLO_S: must be a number of seconds above 0"):
            _hello_s(nonsense)
