"""A pool of Ray's autoscaler from no node to two and back, with the provider that Ray has for tests.

Its nodes are Ray daemons of one machine: they share cores, disk and host name, so times are those of our own part, of
Ray's and of starting processes.  No cloud would be that fast.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.cluster.results import tell
from benchmarks.cluster.site import words_of
from benchmarks.harness import Bench, Stuck
from benchmarks.live.system import until
from benchmarks.train.live import environment
from elastane.client import Client
from elastane.service.home import TOKEN, URL
from elastane.testing.hosts import Box, Host

MOST, IDLE_S, UP_S, DOWN_S = 2, 10.0, 15.0, 30.0
_RAY_IDLE_MIN = 0.1
_HEAD_ID = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"
"""What Ray's provider calls its head."""
_COMMANDS = (
    *("setup_commands", "head_setup_commands", "worker_setup_commands", "initialization_commands"),
    *("head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files"),
)
"""What Ray wants to be told, if only that there is nothing to do."""
_SLOTS = len(os.sched_getaffinity(0))
"""Of a node: each of them has all cores of this machine."""
_LOOK_S = 0.1


def scale(bench: Bench) -> None:
    """Jobs come for which there is no node, and end; again and again."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise Stuck("Ray is not installed here: pip install 'elastane[ray]'") from None
    up_s, down_s, ray_down_s = list[float](), list[float](), list[float]()
    with Box(bench.folder, hosts=1) as box:
        [host] = box.hosts
        _start(host, bench.folder)
        home = bench.folder / "home"
        with (
            host.network(),
            Client(
                (home / URL).read_text().strip(), (home / TOKEN).read_text().strip(), timeout_s=30.0
            ) as client,
        ):
            client.set_pool("spot", idle_s=IDLE_S)
            for _ in range(bench.count(10, 2)):
                spec = {
                    "command": ["sleep", "600"],
                    "kind": "command",
                    "workers": _SLOTS,
                    "accelerators": ["cpu"],
                }
                at_s = time.monotonic()
                jobs = [client.submit(spec, directory="/").id for _ in range(MOST)]
                up_s.append(_when(lambda: _members(client) == MOST, "two nodes") - at_s)
                for job in jobs:
                    client.cancel(job)
                ended_s = _when(partial(_over, client, jobs), "the ends")
                down_s.append(_when(lambda: _members(client) == 0, "no node") - ended_s)
                ray_down_s.append(_when(lambda: len(_daemons(host)) == 1, "no daemon of Ray") - ended_s)
    tell(bench.figures, "scale: from submission to two nodes that count", up_s, UP_S)
    tell(
        bench.figures,
        f"scale: from the last end to no node, idle time of {IDLE_S:g} s",
        down_s,
        IDLE_S + DOWN_S,
    )
    tell(bench.figures, "scale: from the last end until Ray's machines are gone", ray_down_s, IDLE_S + DOWN_S)


def _start(host: Host, folder: Path) -> None:
    """A head of Ray with its autoscaler, and Elastane beside it."""
    host.private(Path("/tmp/ray"))
    token, config, home = folder / "token", folder / "ray.json", folder / "home"
    token.write_text("a" * 64)
    config.write_text(json.dumps(_config(f"{host.address}:6379")))
    own = environment(
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN_PATH=str(token),
        RAY_raylet_start_wait_time_s="120",
        RAY_USAGE_STATS_ENABLED="0",
        RAY_FAKE_CLUSTER="1",
        RAY_enable_autoscaler_v2="1",
        RAY_CLOUD_INSTANCE_ID=_HEAD_ID,
        RAY_OVERRIDE_NODE_ID_FOR_TESTING=_HEAD_ID,
        AUTOSCALER_UPDATE_INTERVAL_S="1",
        XDG_CACHE_HOME=str(folder / "cache"),
    )

    def begin(name: str, *words: str) -> Path:
        log = folder / f"{name}.log"
        with log.open("wb") as output:
            host.start(sys.executable, "-m", *words, environment=own, output=output)
        return log

    head = ("--head", "--block", "--port=6379", f"--node-ip-address={host.address}", "--num-cpus=0")
    log = begin("ray", "ray.scripts.scripts", "start", *head, f"--autoscaling-config={config}")
    _when(lambda: b"Ray runtime started" in log.read_bytes(), "a head of Ray")
    pool = f"--pool=spot:cpus={_SLOTS},most={MOST}"
    ray = ("--engine=ray", f"--address={host.address}:6379", pool, f"--listen={host.address}:7077")
    begin(
        "up", "elastane", "up", f"--home={home}", "--jobs-as=me", "--nodes=1", "--slots=1", "--interval=2", *ray
    )
    _when(lambda: (home / URL).exists(), "a control plane")


def _config(address: str) -> dict[str, object]:
    """What Ray's autoscaler is told; ``address`` is that of Ray's head."""
    return {
        "cluster_name": "bench",
        "max_workers": MOST,
        "idle_timeout_minutes": _RAY_IDLE_MIN,
        "provider": {
            # By its module: what Ray means by "fake_multinode" needs a file that its wheels do not have.
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
            "head_node_id": _HEAD_ID,
            "launch_multiple": True,
            "gcs_address": address,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "spot": {"resources": {"CPU": _SLOTS}, "node_config": {}, "min_workers": 0, "max_workers": MOST},
        },
        "head_node_type": "ray.head.default",
        **{name: list[str]() for name in _COMMANDS},
        "file_mounts": {},
        "upscaling_speed": 1.0,
    }


def _members(client: Client) -> int:
    """How many nodes of the pool count."""
    return sum(node.pool == "spot" and node.state != "lost" for node in client.nodes())


def _over(client: Client, jobs: Sequence[str]) -> bool:
    return all(client.job(job).state == "cancelled" for job in jobs)


def _daemons(host: Host) -> list[int]:
    """Ray's daemons: one of the head, and one of each machine."""
    return [pid for pid in host.processes() if words_of(pid).split(b"\0")[0].endswith(b"/raylet")]


def _when(condition: Callable[[], bool], what: str) -> float:
    def seen() -> bool:
        found = condition()
        if not found:
            time.sleep(_LOOK_S)
        return found

    until(seen, what)
    return time.monotonic()
