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
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from elastane.engines.local.agent import Agent
from elastane.engines.local.agent_messages import (
    BeginNursery,
    EndAttempt,
    FromAgent,
    Hopeless,
    Ok,
    ShutDown,
    ToAgent,
)
from elastane.engines.local.job_folders import make_folders
from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.messages import NodeHello
from elastane.engines.nodes.obligations import is_attempt
from elastane.engines.nodes.tunnels import ENDPOINT, Tunnels
from elastane.train.coordinator.forkserver import HOST
from elastane.train.coordinator.job_user import Identity
from elastane.train.coordinator.relocation import RELOCATE, Relocation, told
from elastane.train.errors import TrainError

_AGAIN_S = 1.0
_RUN = "ELASTANE_RUN"


def relocations(layout: Layout, begin: BeginNursery) -> list[tuple[str, str]]:
    """Which folders and files of the head stand for which in this node's scratch, for one attempt."""
    job = begin.attempt.rpartition(".")[0]
    pairs = [(begin.log, str(layout.records(job) / "nursery.log"))]
    if _RUN in begin.environment:
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
    seen: str = ""
    """Where the hub saw it last."""

    def hello(self, address: str) -> NodeHello:
        """Who this is and what runs here now."""
        self.seen = address
        return msgspec.structs.replace(
            self.machine,
            incarnation=self.agent.name,
            address=self.address or address,
            cluster=str((read_json(self._cluster_file) or {}).get("cluster", "")),
            attempts=dict.fromkeys(self.agent.attempts, True),
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
            case BeginNursery():
                return await self._begin(message)
            case EndAttempt(attempt):
                answer = await self.agent.answer(message)
                if isinstance(answer, Ok):
                    self.tunnels.close(attempt)
                return answer
            case ShutDown():
                await self.end_all()
                self.on_shut_down()
                return Ok()
            case _:
                return await self.agent.answer(message)

    async def end(self, attempt: str) -> None:
        """End an attempt, as often as it takes."""
        while not isinstance(await self.answer(EndAttempt(attempt)), Ok):
            await asyncio.sleep(_AGAIN_S)

    async def end_all(self) -> None:
        """End all attempts that have a nursery."""
        await asyncio.gather(*map(self.end, self.agent.attempts))

    async def _begin(self, begin: BeginNursery) -> FromAgent:
        """Begin a nursery in this node's terms, or say why there can be none."""
        port = begin.environment.get(ENDPOINT, "").rpartition(":")[2]
        if not is_attempt(begin.attempt) or not port.isdigit():
            return Hopeless(f"{begin.attempt} names no supervisor")
        try:
            identity = identity_here(begin.identity)
            if identity is not None:
                self.layout.home.chmod(0o711)  # folders of its own lie within
            make_folders(self.layout.run(begin.attempt.rpartition(".")[0]), identity)
        except TrainError as error:
            return Hopeless(str(error))
        pairs = relocations(self.layout, begin)
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
