"""kill −9 of whatever holds a cluster together, in seeded order, during a stream of jobs whose bits are known.

Control plane, hub, the head's agent and whole nodes are killed; workers go with their node.  What a system of units
would start again (control plane, nodes) is started again by us; hub and agent of the head have to come by themselves.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cluster.site import Site, words_of
from benchmarks.cluster.stamps import trained_at_once
from benchmarks.harness import Bench, Stuck
from benchmarks.live.control import Stream, Witness
from benchmarks.live.system import kill_one, until
from benchmarks.train.alone import finish, start
from benchmarks.train.live import SCRIPTS
from benchmarks.train.timeline import read_diaries
from elastane.client import Client
from elastane.errors import ElastaneError
from elastane.service.home import TOKEN, URL
from elastane.testing.hosts import Host

_CONTROL, _NODE = b"elastane\0up\0", b"elastane\0node\0"
_ON_HEAD = {
    "control plane": _CONTROL,
    "hub": b"elastane.engines.nodes.hub\0",
    "agent of the head": b"elastane.engines.local.agent\0",
}
_NODES = "node"
_EPOCHS, _PAUSE_S = 8, 0.01
_MOST_APART_S = 4.0
_LOOK_S, _END_S = 0.2, 20.0


class Victims:
    """The processes that may be killed, and what brings them back."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self.killed = Counter[str]()
        self._site, self._chance = site, chance

    @contextlib.contextmanager
    def client(self, timeout_s: float = 30.0) -> Iterator[Client]:
        """To ask the control plane that there is now, from any thread."""
        home = self._site.cluster.home
        with self._site.cluster.head.network():
            url, token = (home / URL).read_text().strip(), (home / TOKEN).read_text().strip()
            with Client(url, token, timeout_s=timeout_s) as client:
                yield client

    def kill(self) -> None:
        """Kill one of them that is there, and start again what does not come by itself."""
        kind = self._chance.choice([*_ON_HEAD, _NODES])
        host = self._chance.choice(self._site.far) if kind == _NODES else self._site.cluster.head
        words = _ON_HEAD.get(kind, _NODE)
        self.keep_nodes()
        pids = until(lambda: found(host, words), f"{host.name}: a {kind}")
        hit = [
            pid for pid in pids if kill_one(pid)
        ]  # of a kind there may be two for a moment: one goes, one comes
        self.killed[kind] += bool(hit)
        if kind == "control plane":
            until(lambda: not found(host, words), "the end of the control plane")
            (self._site.cluster.home / URL).unlink(missing_ok=True)
            self._site.up()
        self.keep_nodes()

    def keep_nodes(self) -> None:
        """Start ``elastane node`` again where it has ended, as its unit would."""
        for host in self._site.far:
            if not found(host, _NODE):
                self._site.join(host)
                until(lambda host=host: found(host, _NODE), f"{host.name}: elastane node")  # type: ignore[misc]

    def left(self) -> int:
        """End everything in an orderly way; returns how many processes are still there afterwards."""
        self._site.cluster.down()
        for host in self._site.far:
            for pid in found(host, _NODE):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        give_up_s = time.monotonic() + _END_S
        while (there := sum(len(host.processes()) for host in self._site.box.hosts)) and (
            time.monotonic() < give_up_s
        ):
            time.sleep(_LOOK_S)
        return there


def kills(bench: Bench) -> None:
    """Kills one after the other while jobs come, train and end."""
    count, jobs = bench.count(200, 10), bench.count(100, 8)
    chance = random.Random(bench.seed)
    reference = _reference(bench.folder)
    specs = {f"job-{number}": _spec(bench.folder, f"job-{number}") for number in range(jobs)}
    witness = Witness()
    with Site(bench.folder) as site:
        victims = Victims(site, chance)
        stream = Stream(victims, specs, witness)
        stream.start()
        for number in range(count):
            for _ in range((number + 1) * jobs // count - number * jobs // count):
                stream.due.release()
            time.sleep(chance.uniform(0.0, _MOST_APART_S))
            victims.kill()
            with victims.client() as client:
                witness.look(client)
        until(lambda: not stream.is_alive(), "all jobs handed in")
        until(lambda: _ended(victims, witness) >= jobs, "the end of all jobs", 600.0)
        with victims.client() as client:
            names = Counter(job.name for job in client.jobs("all", limit=10_000))
            attempts = sum(job.attempt for job in client.jobs("all", limit=10_000))
        left = victims.left()
    figures = bench.figures
    figures.note(f"{count} kills during {jobs} jobs, which took {attempts} attempts: {dict(victims.killed)}")
    for words in [*(f"{j}: {s}" for j, s in witness.ended.items() if s != "succeeded"), *witness.changed][:10]:
        figures.note(words)
    figures.at_most("kills: jobs lost", len(witness.lost) + len(specs.keys() - names.keys()), 0, "gate")
    figures.at_most("kills: jobs made twice of one submission", sum(n > 1 for n in names.values()), 0, "gate")
    figures.at_most(
        "kills: jobs that did not succeed", sum(s != "succeeded" for s in witness.ended.values()), 0, "gate"
    )
    figures.at_most("kills: terminal states changed", len(witness.changed), 0, "gate")
    at_once = [name for name in specs if trained_at_once(read_diaries(bench.folder / f"stamps-{name}"))]
    figures.at_most("kills: jobs that trained twice at one time", len(at_once), 0, "gate")
    other = [name for name in specs if _result(bench.folder, name) != reference]
    figures.at_most("kills: jobs that ended with other bits", len(other), 0, "gate")
    figures.at_most("kills: processes left after the end", left, 0, "gate")


def found(host: Host, words: bytes) -> list[int]:
    """The processes of a host with these words in their command line."""
    return [pid for pid in host.processes() if words in words_of(pid)]


def _ended(victims: Victims, witness: Witness) -> int:
    """How many jobs have ended by now; nodes are looked after meanwhile."""
    victims.keep_nodes()
    time.sleep(_LOOK_S)
    with contextlib.suppress(ElastaneError, OSError), victims.client() as client:
        return witness.look(client)
    return 0


def _arguments(folder: Path, name: str) -> list[str]:
    stamps, out = folder / f"stamps-{name}", folder / f"{name}.hash"
    return [str(stamps), str(out), f"--epochs={_EPOCHS}", f"--pause={_PAUSE_S}"]


def _spec(folder: Path, name: str) -> Mapping[str, Any]:
    return {
        "name": name,
        "command": [sys.executable, str(SCRIPTS / "repeatable.py"), *_arguments(folder, name)],
        "kind": "adaptive",
        "workers": {"min": 1, "max": 2},
        "checkpoint": {"every": 1.0},
        "retries": 1000,
    }


def _result(folder: Path, name: str) -> str:
    path = folder / f"{name}.hash"
    return path.read_text() if path.exists() else ""


def _reference(folder: Path) -> str:
    """What a process ends with that nobody disturbs."""
    finish(start("repeatable.py", folder / "alone", _arguments(folder, "alone")))
    if not (text := _result(folder, "alone")):
        raise Stuck("the undisturbed run wrote no result")
    return text
