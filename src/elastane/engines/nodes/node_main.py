"""Runs ``elastane node JOIN``: the agent of this machine, in a scratch folder, and its line to the hub."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from elastane.accelerators import discover
from elastane.engines.local.agent import Agent
from elastane.engines.local.json_files import Lock
from elastane.engines.local.paths import Layout
from elastane.engines.local.survive_errors import Trouble
from elastane.engines.nodes.dialler import ORPHAN_S, Dialler
from elastane.engines.nodes.hub import own_versions
from elastane.engines.nodes.idle_end import until_idle
from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.log_shipping import LOOK_S, LogShipper
from elastane.engines.nodes.messages import PROTOCOL, NodeDevice, NodeHello
from elastane.engines.nodes.node_packages import NodePackages
from elastane.engines.nodes.package_store import PACKAGES
from elastane.engines.nodes.tunnels import Tunnels
from elastane.engines.nodes.workshop import Workshop
from elastane.errors import ElastaneError
from elastane.train.coordinator.device_locks import NODE_DEVICES, lock_of

_LAST_S = 2.0
"""How long the end of a node may wait until the last words of its workers are sent."""
_TIDY_S = 600.0


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How a machine joins a cluster."""

    join: Join
    name: str
    scratch: Path
    address: str = ""
    """Where other nodes reach it; empty: its address on the way to the hub."""
    orphan_s: float = ORPHAN_S
    once: bool = False
    """End when the head is shut down, instead of waiting for the next one."""
    pool: str = ""
    own_disk: bool = False
    """Use folders of its own also where it sees those of the head."""
    idle_s: float = 0.0
    """End when nothing has worked here for so long; 0 is never."""
    notice_s: float = 30.0
    """How long this machine stays after SIGUSR1, which says that it will be taken away."""


def own_name() -> str:
    """The name that a node has if nobody chooses one: that of its host, without its domain."""
    return socket.gethostname().partition(".")[0] or "node"


def default_scratch(name: str) -> Path:
    """The folder of a node if nobody chooses one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "elastane" / "nodes" / name


def describe(name: str, pool: str = "") -> tuple[NodeHello, tuple[str, ...]]:
    """This machine as it introduces itself, and what a person should know about its accelerators."""
    found = discover()
    devices = tuple(NodeDevice(each.id, each.kind, each.memory_gb, each.name) for each in found.devices)
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    hello = NodeHello(
        PROTOCOL,
        name,
        "",
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(memory_gb, 3),
        devices=devices,
        versions=own_versions(),
        pool=pool,
    )
    try:
        msgspec.convert(msgspec.to_builtins(hello), NodeHello)
    except msgspec.ValidationError:
        raise ElastaneError(
            f"--name: a node's name is up to 63 letters, digits, '.', '_' and '-', not {name!r}"
        ) from None
    return hello, found.problems


async def run_node(options: NodeOptions, say: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM, or until it was idle for long enough: then everything on this node has ended.

    Raises:
        ElastaneError: the node cannot join, or another one took its place.
    """
    machine, problems = describe(options.name, options.pool)
    layout = Layout(options.scratch)
    lock = _scratch_lock(layout, options.name)
    _make_device_locks(layout, options.name, machine.devices)
    for problem in problems:
        say(f"note: {problem}")
    agent = Agent(layout, options.name, alone=True)
    stopped = asyncio.Event()
    dialler: Dialler
    tunnels = Tunnels(options.join, lambda: dialler.session)
    shut_down = stopped.set if options.once else lambda: None
    packages = NodePackages(layout.home / PACKAGES, options.join, lambda: dialler.session)
    logs = LogShipper(lambda part: dialler.send_log(part), _memory(layout))
    shop = Workshop(
        agent, layout, machine, tunnels, options.address, shut_down, packages, logs, options.own_disk
    )
    dialler = Dialler(options.join, shop, say, options.orphan_s)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, dialler.leaving, options.notice_s)
    works = [
        asyncio.create_task(work)
        for work in (
            agent.run(),
            dialler.run(),
            _until(stopped),
            _ship(logs),
            _tidy(packages),
            until_idle(options.idle_s, lambda: shop.is_busy(time.monotonic())),
        )
    ]
    try:
        await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
    finally:
        agent.stop()
        await works[0]  # everything on this node ends
        await asyncio.wait([asyncio.create_task(_last(logs))], timeout=_LAST_S)
        if not works[1].done():
            await dialler.leave()
        tunnels.close_all()
        for work in works[1:]:
            work.cancel()
        ends = await asyncio.gather(*works[1:], return_exceptions=True)
        lock.release()
    if isinstance(ends[0], ElastaneError):
        raise ends[0]


def _memory(layout: Layout) -> Path:
    """Where it is remembered which logs were cut."""
    folder = layout.home / "shipped"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


async def _ship(logs: LogShipper) -> None:
    """Send what workers print."""
    trouble = Trouble("logs are not sent to the head")
    while True:
        with trouble.logged():
            await logs.run()
        await asyncio.sleep(LOOK_S)


async def _last(logs: LogShipper) -> None:
    """Send the ends of all logs, if there is somebody to send them to."""
    for attempt in logs.attempts:
        await logs.end(attempt)


async def _tidy(packages: NodePackages) -> None:
    """Now and then, remove packages that nobody uses."""
    trouble = Trouble("packages are not tidied up")
    while True:
        await asyncio.sleep(_TIDY_S)
        with trouble.logged():
            await packages.tidy()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _scratch_lock(layout: Layout, name: str) -> Lock:
    """Held as long as this process lives: two agents must not share a scratch folder."""
    try:
        layout.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        layout.node(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElastaneError(f"--scratch: {layout.home} cannot be made: {error.strerror}") from None
    lock = Lock(layout.agent_lock(name))
    if not lock.take():
        raise ElastaneError(
            f"another 'elastane node' runs in {layout.home}; choose another --scratch or --name"
        )
    return lock


def _make_device_locks(layout: Layout, name: str, devices: tuple[NodeDevice, ...]) -> None:
    """Files that workers lock to have an accelerator; the agent's environment says where they are."""
    os.environ.pop(NODE_DEVICES, None)
    if not devices:
        return
    folder = layout.devices(name)
    for place in (folder.parent, folder):
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o711)
    for device in devices:
        lock = lock_of(folder, device.id)
        lock.touch()
        lock.chmod(0o644)
    os.environ[NODE_DEVICES] = f"{folder}|{','.join(device.id for device in devices)}"


def run(options: NodeOptions, say: Callable[[str], None]) -> None:
    """``run_node`` as a process."""
    os.umask(0o077)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run_node(options, say))
