"""Carries out the head's requests on a joined node: puts them into its own terms and passes them to its agent.

An attempt's folders are in the node's scratch, its supervisor is reached through a tunnel, other nodes reach it at the
node's address, and a user of the head is the user of that name here.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from elastane.engines.local.agent import Agent
from elastane.engines.local.agent_messages import (
    BeginForkServer,
    EndAttempt,
    FlushLogs,
    FromAgent,
    Hopeless,
    LookAt,
    Ok,
    Seen,
    ShutDown,
    ToAgent,
    Unfinished,
)
from elastane.engines.local.job_folders import make_folders
from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.local.paths import Layout
from elastane.engines.local.process_descent import children
from elastane.engines.local.untrusted_files import read_bytes
from elastane.engines.nodes.log_parts import LogOffsets
from elastane.engines.nodes.log_shipping import LogShipper
from elastane.engines.nodes.messages import AttemptTold, NodeHello
from elastane.engines.nodes.node_packages import NodePackages, NotNowError
from elastane.engines.nodes.obligations import is_attempt
from elastane.engines.nodes.package_tree import PackageError
from elastane.engines.nodes.tunnels import ENDPOINT, Tunnels
from elastane.train.coordinator.forkserver import HOST
from elastane.train.coordinator.job_user import Identity
from elastane.train.coordinator.relocation import RELOCATE, Relocation, told
from elastane.train.errors import TrainError

_AGAIN_S = 1.0
_LOGS_S = 5.0
"""How long an attempt's end may wait until the rest of its logs is on its way; after that it goes on beside it."""
_PROBE_BYTES = 256
_WARM_UP_S = 120.0
"""How long an attempt that was begun here may have no worker while its fork server imports what it needs."""
_RUN = "ELASTANE_RUN"


def relocations(layout: Layout, begin: BeginForkServer, *, shared: bool = False) -> list[tuple[str, str]]:
    """Which folders and files of the head stand for which in this node's scratch, for one attempt.

    ``shared``: this node sees the run folder itself.
    """
    job = begin.attempt.rpartition(".")[0]
    pairs = [(begin.log, str(layout.records(job) / "nursery.log"))]
    if _RUN in begin.environment and not shared:
        pairs.append((begin.environment[_RUN], str(layout.run(job))))
    return pairs


@dataclass(slots=True)
class Workshop:
    """The agent of a joined node and what is around it."""

    agent: Agent
    layout: Layout
    machine: NodeHello
    """What is always the same of its hello."""
    tunnels: Tunnels
    address: str = ""
    """Where others reach this node; empty: where the hub sees it."""
    on_shut_down: Callable[[], None] = lambda: None
    packages: NodePackages | None = None
    logs: LogShipper | None = None
    own_disk: bool = False
    """Whether it uses its own folders also where it sees those of the head."""
    seen: str = ""
    """Where the hub saw it last."""
    _told: dict[str, AttemptTold] = field(default_factory=dict)
    """Attempts whose fork server was asked for, and that have not been ended."""
    _begins: dict[str, set[asyncio.Task[FromAgent]]] = field(default_factory=dict)
    _hopeless: dict[str, Hopeless] = field(default_factory=dict)
    _warming: dict[str, float] = field(default_factory=dict)
    """Attempts that were begun and have had no worker since, with the time until which one is expected."""
    _endings: set[asyncio.Task[None]] = field(default_factory=set)
    """Logs whose ends are being sent."""

    def hello(self, address: str) -> NodeHello:
        """Who this is and what runs here now."""
        self.seen = address
        return msgspec.structs.replace(
            self.machine,
            incarnation=self.agent.name,
            address=self.address or address,
            cluster=str((read_json(self._cluster_file) or {}).get("cluster", "")),
            attempts=dict.fromkeys((*self.agent.attempts, *self._told), True),
            logs=tuple(self.logs.attempts) if self.logs is not None else (),
            clock_s=time.time(),
        )

    def belongs_to(self, cluster: str) -> None:
        """Write down which cluster this node belongs to."""
        if read_json(self._cluster_file) != {"cluster": cluster}:
            write_json(self._cluster_file, {"cluster": cluster})

    @property
    def _cluster_file(self) -> Path:
        return self.layout.home / "cluster.json"

    async def answer(self, message: ToAgent) -> FromAgent:
        """Do what somebody on the head asks for."""
        match message:
            case BeginForkServer():
                return await self._begin_unless_ended(message)
            case EndAttempt():
                return await self._end(message)
            case FlushLogs(attempt):
                if self.logs is not None:
                    await self.logs.flush(attempt)
                return Ok()
            case LookAt(path):
                return Seen("" if self.own_disk else await asyncio.to_thread(_text_of_probe, Path(path)))
            case ShutDown():
                await self.end_all()
                self.on_shut_down()
                return Ok()
            case _:
                return await self.agent.answer(message)

    def told(self, about: AttemptTold) -> None:
        """Remember what the next request for a fork server of an attempt needs."""
        self._told[about.attempt] = about

    def is_busy(self, now_s: float) -> bool:
        """Whether anything works here, or is being made ready to: a package is fetched, a fork server warms up."""
        works = [attempt for attempt, pid in self.agent.fork_server_pids.items() if children(pid)]
        for attempt in works:
            self._warming.pop(attempt, None)
        return bool(works or self._begins) or any(now_s < until_s for until_s in self._warming.values())

    async def resume_logs(self, known: LogOffsets) -> None:
        """Go on with an attempt's logs where the head is."""
        if self.logs is not None:
            await self.logs.resume(known)

    def line_broke(self) -> None:
        """Send no logs until the head has said how far it is."""
        if self.logs is not None:
            self.logs.line_broke()

    async def end(self, attempt: str) -> None:
        """End an attempt, as often as it takes."""
        while not isinstance(await self.answer(EndAttempt(attempt)), Ok):
            await asyncio.sleep(_AGAIN_S)

    async def end_all(self) -> None:
        """End all attempts that there are."""
        await asyncio.gather(*map(self.end, {*self.agent.attempts, *self._told}))

    async def _begin_unless_ended(self, begin: BeginForkServer) -> FromAgent:
        """Begin a fork server, which may take long; an end that comes meanwhile counts more."""
        self._warming[begin.attempt] = time.monotonic() + _WARM_UP_S
        begins = self._begins.setdefault(begin.attempt, set())
        task = asyncio.create_task(self._begin(begin))
        begins.add(task)
        try:
            await asyncio.wait({task})
            return Unfinished() if task.cancelled() else task.result()
        finally:
            task.cancel()
            begins.discard(task)
            if not begins:
                self._begins.pop(begin.attempt, None)

    async def _end(self, end: EndAttempt) -> FromAgent:
        """End an attempt, and let go of what it had here; the rest of its logs is on its way to the head then."""
        attempt = end.attempt
        for task in (begins := list(self._begins.get(attempt, ()))):
            task.cancel()
        if begins:
            await asyncio.wait(begins)
        answer = await self.agent.answer(end)
        if isinstance(answer, Ok):
            self.tunnels.close(attempt)
            for known in (self._told, self._hopeless, self._warming):
                known.pop(attempt, None)
            if self.packages is not None:
                await asyncio.to_thread(self.packages.release, attempt)
            if self.logs is not None:
                ending = asyncio.create_task(self.logs.end(attempt))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
                await asyncio.wait({ending}, timeout=_LOGS_S)
        return answer

    async def _begin(self, begin: BeginForkServer) -> FromAgent:
        """Begin a fork server in this node's terms, or say why there can be none."""
        port = begin.environment.get(ENDPOINT, "").rpartition(":")[2]
        if not is_attempt(begin.attempt) or not port.isdigit():
            return Hopeless(f"{begin.attempt} names no supervisor")
        if begin.attempt in self._hopeless:
            return self._hopeless[begin.attempt]
        about = self._told.get(begin.attempt, AttemptTold(begin.attempt))
        shared = about.shared and os.access(begin.environment.get(_RUN, ""), os.W_OK)
        run = self.layout.run(begin.attempt.rpartition(".")[0])
        try:
            identity = identity_here(begin.identity)
            if identity is not None:
                self.layout.home.chmod(0o711)  # folders of its own lie within
            if not shared:
                make_folders(run, identity)
            code = await self._package(about)
        except NotNowError:
            return Unfinished()  # it is asked for again
        except (TrainError, PackageError) as error:
            problem = self._hopeless[begin.attempt] = Hopeless(f"node {self.machine.node}: {error}")
            return problem
        if self.logs is not None and not shared and not self.logs.follows(begin.attempt):
            self.logs.begin(begin.attempt, run)
            await self.logs.resume(LogOffsets(begin.attempt, about.offsets))
        pairs = [*relocations(self.layout, begin, shared=shared), *code]
        here = Relocation(tuple(pairs))
        log = Path(here.path(begin.log))
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = {
            **here.environment(begin.environment),
            **await self.tunnels.listen(begin.attempt, int(port)),
            HOST: self.address or self.seen,
            RELOCATE: told(pairs),
        }
        return await self.agent.answer(
            msgspec.structs.replace(begin, environment=environment, log=str(log), identity=identity)
        )

    async def _package(self, about: AttemptTold) -> tuple[tuple[str, str], ...]:
        """Have the code of an attempt; which paths of the head are which in it."""
        if about.package is None or self.packages is None:
            return ()
        return await self.packages.have(about.package)


def _text_of_probe(path: Path) -> str:
    """A file that the head has just written, if this node sees it; no other file is of interest."""
    if not path.name.startswith(".probe-"):
        return ""
    return read_bytes(path.parent, path.name, most=_PROBE_BYTES).decode(errors="replace")


def identity_here(identity: Identity | None) -> Identity | None:
    """The user of this machine who has the same name.

    Raises:
        TrainError: there is none, or we may not run anything as somebody else.
    """
    if identity is None:
        return None
    try:
        user = pwd.getpwnam(identity.name)
    except KeyError:
        raise TrainError(f"jobs run as user {identity.name}, whom this node does not have") from None
    if os.geteuid() not in (0, user.pw_uid):
        raise TrainError(
            f"jobs run as user {identity.name}; for that 'elastane node' has to be started by root"
        )
    groups = tuple(group.gr_gid for group in grp.getgrall() if identity.name in group.gr_mem)
    home = user.pw_dir
    return replace(identity, uid=user.pw_uid, gid=user.pw_gid, groups=groups, home=home)
