"""A cluster on three hosts in a box for one group of figures: driven and watched from outside, as its users would."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks.cluster.stamps import Step, steps_of
from benchmarks.live.system import until
from benchmarks.train.live import environment
from elastane.client import Client
from elastane.demo.journals import Journals
from elastane.engines.local.paths import Layout
from elastane.service.home import TOKEN, URL
from elastane.service.messages import JobDetail
from elastane.testing.hosts import Box, Cluster, Host
from elastane.train.reports.events import Event

SCRIPT = Path(__file__).parent / "scripts" / "steady.py"
EVERY_S = 3.0
"""Between checkpoints."""
_MEMBER = "member"
_FORK_SERVER = b"elastane.train.coordinator.forkserver"
_SLEEP_S = 0.05
_REST_S = 3.0


class Site:
    """Use as a context: the box, and all that ran in it, is gone afterwards."""

    def __init__(self, folder: Path, *, slots: int = 1, cores: tuple[int, ...] = (2, 2)) -> None:
        """``slots``: of the node on the head; ``cores``: of each host that joins, which are its slots."""
        self.folder = folder
        self.box = Box(folder, hosts=1 + len(cores))
        own = environment(ELASTANE_HOME=str(folder / "home"), XDG_CACHE_HOME=str(folder / "cache"))
        self.cluster = Cluster(self.box, folder, own)
        self._slots, self._cores = slots, dict(enumerate(cores, start=1))
        self._stack = contextlib.ExitStack()
        self.client: Client
        self.journals = Journals(Layout(self.cluster.home))

    def __enter__(self) -> Site:
        try:
            self._stack.enter_context(self.box)
            self.up()
            self._stack.enter_context(self.cluster.head.network())
            home = self.cluster.home
            self.client = self._stack.enter_context(
                Client((home / URL).read_text().strip(), (home / TOKEN).read_text().strip(), timeout_s=30.0)
            )
            for host in self.far:
                self.join(host)
            for host in self.far:
                self.until(lambda host=host: self.stands(host), f"{host.name}: joined")  # type: ignore[misc]
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def far(self) -> list[Host]:
        """All hosts but the head."""
        return self.box.hosts[1:]

    def up(self) -> None:
        """Start a control plane on the head and wait until it serves."""
        self.cluster.up("--nodes=1", f"--slots={self._slots}", "--interval=2", "--min-run=0")

    def join(self, host: Host) -> None:
        """Start ``elastane node`` there."""
        self.cluster.join(host, cores=self._cores[host.number])

    def stands(self, host: Host) -> bool:
        """Whether the control plane has this node and calls it up."""
        return any(node.id == host.name and node.state == "up" for node in self.client.nodes())

    def is_lost(self, host: Host) -> bool:
        """Whether the control plane has given this node up; one that is only suspect, it has not."""
        return all(node.state == "lost" for node in self.client.nodes() if node.id == host.name)

    def until(self, condition: Callable[[], bool], what: str) -> float:
        """Wait for something to be so; returns when that was (monotonic)."""

        def seen() -> bool:
            found = condition()
            if not found:
                time.sleep(_SLEEP_S)
            return found

        until(seen, what)
        return time.monotonic()

    def train(self, name: str, least: int, most: int, *options: str, preemptible: bool = False) -> str:
        """Submit a job without end whose speed follows its workers; returns its id.

        One that is not ``preemptible`` stays where it is until somebody says otherwise or its node is lost.
        """
        spec = {
            "name": name,
            "command": [sys.executable, str(SCRIPT), str(self.stamps(name)), *options],
            "kind": "adaptive",
            "workers": {"min": least, "max": most},
            "checkpoint": {"every": EVERY_S},
            "preemptible": preemptible,
            "retries": 1000,
        }
        return self.client.submit(spec, directory="/").id

    def stamps(self, name: str) -> Path:
        """The folder in which a job's workers write down their steps."""
        return self.folder / f"stamps-{name}"

    def steps(self, name: str) -> list[Step]:
        """All steps of a job so far."""
        return steps_of(self.stamps(name))

    def members(self, job: str) -> dict[str, str]:
        """The nodes of the workers that train."""
        return members_of(self.client.job(job))

    def resize(self, job: str, count: int) -> float:
        """Ask for a size and wait until so many train; returns when that was."""
        self.client.scale(job, count)
        return self.until_members(job, count)

    def waiting_pair(self, turn: int) -> str:
        """Submit a job of two workers for whom there is no room: when both train, every slot is used again."""
        return self.train(f"pair-{turn}", 2, 2)

    def rest(self) -> None:
        """Let nodes that have just come warm up, so that one trouble is over before the next one."""
        time.sleep(_REST_S)

    def until_members(self, job: str, count: int, *, without: Collection[str] = ()) -> float:
        """Wait until so many train, none of them on these nodes; returns when that was."""

        def whole() -> bool:
            there = self.members(job)
            return len(there) == count and not set(there.values()) & set(without)

        return self.until(whole, f"{job}: {count} workers that train")

    def events(self, job: str) -> list[Event]:
        """What the job reported since we asked last."""
        return self.journals.fresh(job)

    def workers_on(self, host: Host) -> list[int]:
        """Workers of jobs there, and the fork servers that they come from; not those that wait for work."""
        parents = {pid: parent_of(pid) for pid in host.processes()}
        workers = [pid for pid, parent in parents.items() if _FORK_SERVER in words_of(parent)]
        return sorted({*workers, *(parents[pid] for pid in workers)})


def members_of(job: JobDetail) -> dict[str, str]:
    """The nodes of a job's workers that train, by their names."""
    return {worker.name: worker.node for worker in job.processes if worker.doing == _MEMBER}


def words_of(pid: int) -> bytes:
    """The command line of a process; nothing if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def parent_of(pid: int) -> int:
    """The process that started this one, or that took it over; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0
