"""A head and a node as two hosts: network namespaces of their own, and a cable between them that can be pulled.

Run as a program within ``unshare --net``: it leaves nothing behind on the machine.  It prints what happened, and when.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from elastane.train.reports.events import Stepped, WorkerLost
from engines.nodes.cluster import Far, Site, live, site
from engines.nodes.test_joined_nodes import alive, finish

HEAD, NODE = "10.88.0.1", "10.88.0.2"
CUT_S = 2.0
"""A cut that short replaces nobody.  One of 3 s may be a silence of 4.4 s, which leaves a busy machine half a second
until the lease of a fork server ends; on Linux before 6.15 it may be 7.2 s, for TCP waits longer and longer."""


def run(*words: str) -> None:
    subprocess.run(words, check=True)


class Cable:
    """Two ends, one of them here."""

    def __init__(self, there: int) -> None:
        self.enter = ("nsenter", "--net", f"--target={there}")
        run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
        run("ip", "link", "set", "b0", "netns", str(there))
        for inside, end, address in (((), "a0", HEAD), (self.enter, "b0", NODE)):
            run(*inside, "ip", "link", "set", "lo", "up")
            run(*inside, "ip", "address", "add", f"{address}/24", "dev", end)
            run(*inside, "ip", "link", "set", end, "up")

    def pull(self) -> None:
        run("ip", "link", "set", "a0", "down")

    def plug(self) -> None:
        run("ip", "link", "set", "a0", "up")


@contextlib.contextmanager
def cable() -> Iterator[Cable]:
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo there; exec cat"], stdin=-1, stdout=-1
    ) as there:
        assert there.stdout is not None
        assert there.stdout.readline() == b"there\n"
        yield Cable(there.pid)
        there.kill()


class Watch:
    """Says how long ago something was."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self._since_s:6.2f} s {what}", flush=True)

    def again(self) -> None:
        self._since_s = time.monotonic()


async def steps(living: Site, more: int = 2) -> None:
    seen = len(living.events(Stepped, "j1"))
    await living.until(lambda: len(living.events(Stepped, "j1")) >= seen + more)


async def story(home: Path, wire: Cable) -> None:
    watch = Watch()
    async with site(home, f"{HEAD}:0") as living:
        far = Far(living, "far", enter=wire.enter)
        living.far.append(far)
        await living.until(lambda: "far" in living.engine.nodes())
        watch.say("joined")
        assert living.engine.node_facts()["far"].address == NODE
        job = living.counting()
        living.want(job, {"n0": 1, "far": 1})
        await living.until(lambda: living.on(job) == {"n0": 1, "far": 1})
        watch.say("two workers on two hosts")
        await steps(living)

        wire.pull()
        watch.again()
        while time.monotonic() < watch._since_s + CUT_S:
            await living.engine.changed(0.05)
        wire.plug()
        await steps(living)
        watch.say("step after a short cut")
        assert not living.events(WorkerLost, "j1")
        assert living.on(job) == {"n0": 1, "far": 1}

        stale = [worker.pid for worker in living.engine.processes(job.attempt) if worker.node == "far"]
        wire.pull()
        watch.again()
        await living.until(lambda: bool(living.events(WorkerLost, "j1")))
        watch.say("worker lost")
        await steps(living, 1)
        watch.say("survivor steps")
        await living.until(lambda: "far" not in living.engine.nodes())
        watch.say("node lost")
        living.want(job, {"n0": 1})
        wire.plug()
        watch.again()
        await living.until(lambda: "far" in living.engine.nodes())
        watch.say("node back")
        assert not any(map(alive, stale))
        living.want(job, {"n0": 1, "far": 1})
        await living.until(lambda: living.on(job) == {"n0": 1, "far": 1})
        watch.say("full size")

        family = far.family()
        os.kill(family[0], signal.SIGKILL)
        watch.again()
        await living.until(lambda: "far" not in living.engine.nodes())
        watch.say("killed node lost")
        await living.until(lambda: not any(map(alive, family)))
        watch.say("nothing left of it")
        await steps(living, 1)
        watch.say("survivor steps")
        living.want(job, {"n0": 1})
        await finish(living, job)


if __name__ == "__main__":
    with cable() as wire:
        live(lambda: story(Path(sys.argv[1]), wire))
    print("all is well")
