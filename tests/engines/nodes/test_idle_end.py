"""A node that was lent for a while ends when nobody has used it for long enough, and not before."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import chain, repeat
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from elastane.engines.local.agent import Agent
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.idle_end import Idleness, until_idle
from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.messages import PROTOCOL, NodeHello
from elastane.engines.nodes.tunnels import Tunnels
from elastane.engines.nodes.workshop import Workshop

PARENT = """
import signal, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
print(flush=True)
sys.stdin.read()
child.kill()
child.wait()
print(flush=True)
signal.pause()
"""


@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.booleans()), max_size=30))
def test_it_ends_exactly_when_the_last_work_is_long_enough_ago(looks: list[tuple[float, bool]]) -> None:
    idleness, now_s, last_s = Idleness(10.0, 0.0), 0.0, 0.0
    for after_s, busy in looks:
        now_s += after_s
        last_s = now_s if busy else last_s
        assert idleness.look(busy=busy, now_s=now_s) == (now_s - last_s >= 10.0)


def test_a_node_that_is_busy_stays_until_it_is_no_more() -> None:
    async def story() -> None:
        looks = chain([True, True, True], repeat(False))
        asked: list[bool] = []

        def busy() -> bool:
            asked.append(next(looks))
            return asked[-1]

        await until_idle(0.001, busy)
        assert asked[:4] == [True, True, True, False]

    asyncio.run(story())


def test_a_node_is_busy_while_a_fork_server_has_a_worker(tmp_path: Path) -> None:
    agent, layout = Agent(Layout(tmp_path), "far"), Layout(tmp_path)
    machine = NodeHello(PROTOCOL, "far", "first")
    shop = Workshop(agent, layout, machine, Tunnels(Join("h", 1, "0" * 32, "0" * 64), lambda: ""))
    assert not shop.is_busy(0.0)
    fork_server = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert fork_server.stdin is not None
    assert fork_server.stdout is not None
    try:
        agent._fork_servers["j1.1"] = fork_server
        fork_server.stdout.readline()
        shop._warming["j1.1"] = 120.0
        assert shop.is_busy(0.0)
        fork_server.stdin.close()
        fork_server.stdout.readline()
        assert not shop.is_busy(0.0), "once a worker was there, nothing is waited for"
        shop._warming["j1.3"] = 120.0
        assert shop.is_busy(119.0)
        assert not shop.is_busy(120.0)
    finally:
        fork_server.kill()
        fork_server.wait()


def test_nothing_said_is_never() -> None:
    async def story() -> None:
        ending = asyncio.create_task(until_idle(0.0, lambda: False))
        done, _ = await asyncio.wait([ending], timeout=0.6)
        ending.cancel()
        assert not done

    asyncio.run(story())
