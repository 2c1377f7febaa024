"""A real Ray cluster of two machines in a box: nodes join by themselves, and outlive the warden and a lost pilot."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elastane.service.messages import NodeInfo
from elastane.testing.hosts import Box, Host, why_not

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.hosts,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

PATIENCE_S = 180.0
PYTHON = sys.executable
ELASTANE = (PYTHON, "-m", "elastane")


class Cluster:
    """Elastane and Ray on the first host, a Ray node on the second."""

    def __init__(self, box: Box, folder: Path) -> None:
        self.head, self.far = box.hosts
        self.folder, self.home = folder, folder / "home"
        self.token = folder / "token"
        self.token.write_text("a" * 64)
        for host in box.hosts:
            host.private(Path("/tmp/ray"))
            host.private(folder / "cache")
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_raylet_start_wait_time_s": "120",
            "RAY_USAGE_STATS_ENABLED": "0",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "OMP_NUM_THREADS": "1",
        }
        self._logs: list[Any] = []

    def start(self, host: Host, name: str, *words: str) -> Path:
        """Starts a program of the cluster; returns its log."""
        log = self.folder / f"{name}.log"
        output = log.open("wb")
        self._logs.append(output)
        host.start(*words, environment=self.environment, output=output)
        return log

    def ray(self, host: Host, name: str, *words: str) -> None:
        """Starts a part of Ray and waits until it runs."""
        log = self.start(host, name, PYTHON, "-m", "ray.scripts.scripts", "start", "--block", *words)
        wait(lambda: b"Ray runtime started" in log.read_bytes(), lambda: log.read_text())

    def up(self, *words: str) -> Path:
        """Starts Elastane on the head and waits until it serves."""
        log = self.start(self.head, "up", *ELASTANE, "up", f"--home={self.home}", "--jobs-as=me", *words)
        wait(lambda: (self.home / "url").exists(), lambda: log.read_text())
        return log

    def nodes(self) -> dict[str, NodeInfo]:
        """Asks for the nodes, from the head."""
        text = self.head.do("env", f"ELASTANE_HOME={self.home}", *ELASTANE, "nodes", "--json")
        return {each["id"]: NodeInfo.model_validate(each) for each in json.loads(text)}


def wait(condition: Callable[[], bool], words: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, words()
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Box(tmp_path, hosts=2) as box:
        yield Cluster(box, tmp_path)


def agents(host: Host) -> list[int]:
    """Processes of ``elastane node`` on a host."""
    return [pid for pid in host.processes() if b"elastane\0node\0" in words_of(pid)]


def words_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_nodes_of_ray_join_come_back_outlive_the_warden_and_go_with_elastane(cluster: Cluster) -> None:
    head = f"{cluster.head.address}:6379"
    cluster.ray(
        cluster.head,
        "ray-head",
        *("--head", "--port=6379", f"--node-ip-address={cluster.head.address}", "--num-cpus=0"),
        "--include-dashboard=false",
    )
    cluster.ray(
        cluster.far,
        "ray-far",
        *(f"--address={head}", f"--node-ip-address={cluster.far.address}", "--num-cpus=2"),
        "--labels=elastane.io/node=far",
    )
    log = cluster.up("--engine=ray", f"--address={head}", "--nodes=1", "--slots=1")

    def stands(state: str) -> Callable[[], bool]:
        return lambda: cluster.nodes().get("far") is not None and cluster.nodes()["far"].state == state

    wait(stands("up"), log.read_text)
    assert cluster.nodes()["far"].address == cluster.far.address
    [first] = agents(cluster.far)
    # Whoever kills the agent finds another one soon: its pilot ends, and Ray starts it again.
    os.kill(first, signal.SIGKILL)
    wait(lambda: agents(cluster.far) not in ([], [first]), log.read_text)
    wait(stands("up"), log.read_text)
    # The warden is not needed for what runs.
    [second] = agents(cluster.far)
    wardens = [pid for pid in cluster.head.processes() if b"elastane.engines.ray.warden" in words_of(pid)]
    for pid in wardens:
        os.kill(pid, signal.SIGKILL)
    wait(
        lambda: any(
            b"elastane.engines.ray.warden" in words_of(pid) and pid not in wardens
            for pid in cluster.head.processes()
        ),
        log.read_text,
    )
    assert wardens
    assert agents(cluster.far) == [second]
    assert stands("up")()
    cluster.head.do(*ELASTANE, "down", f"--home={cluster.home}")
    wait(lambda: not agents(cluster.far), log.read_text)


def test_who_has_no_token_is_refused_in_one_line(cluster: Cluster) -> None:
    del cluster.environment["RAY_AUTH_MODE"]
    log = cluster.start(
        cluster.head,
        "refused",
        *(
            *ELASTANE,
            "up",
            f"--home={cluster.home}",
            "--jobs-as=me",
            "--engine=ray",
            "--address=10.77.0.10:6379",
        ),
    )
    wait(lambda: "RAY_AUTH_MODE=token" in log.read_text(), log.read_text)
    assert "Traceback" not in log.read_text()
