"""One process that is the whole live system: control plane, engine and API on one home; and how to find and end it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastane.engines.local.engine import LocalEngine
from elastane.engines.local.files import Lock
from elastane.errors import ElastaneError
from elastane.service.api.app import create_app
from elastane.service.api.server import serve
from elastane.service.api.settings import ApiSettings
from elastane.service.asking import LiveService
from elastane.service.control import ControlPlane, ControlSettings
from elastane.service.keeping import StoredAccounts
from elastane.service.machine import nodes_here, shared_cores
from elastane.service.store import StaleControlPlane, Store, StoreError

PID, URL, TOKEN, LOCK, DATABASE = "elastane.pid", "url", "token", "elastane.lock", "elastane.db"
ADMIN = "admin"
_START_S, _STOP_S = 30.0, 60.0


@dataclass(frozen=True, slots=True)
class UpOptions:
    """How to start."""

    home: Path
    nodes: int | None = None
    slots: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    policy: str = "elastane"
    interval_s: float | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    min_run_s: float = 60.0
    restore: bool = False
    """Go back to the last good copy of the store first."""


def default_home() -> Path:
    """Where everything is kept: ``$ELASTANE_HOME``, or a folder in the user's own."""
    return Path(os.environ.get("ELASTANE_HOME") or Path.home() / ".elastane")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a running one is."""

    pid: int
    url: str


def running(home: Path) -> Address | None:
    """The system that runs on a home, if any does."""
    if not Lock(home / LOCK).held:
        return None
    try:
        return Address(int((home / PID).read_text()), (home / URL).read_text().strip())
    except (OSError, ValueError):
        return None


async def run(options: UpOptions, started: Callable[[str, Sequence[str]], None]) -> None:
    """Until SIGINT or SIGTERM: then everything is saved and ended.  SIGHUP leaves jobs running."""
    home = options.home
    _make_home(home)
    lock = Lock(home / LOCK)
    if not lock.take():
        there = running(home)
        where = f" (process {there.pid}, {there.url})" if there else ""
        raise ElastaneError(f"Elastane runs on {home} already{where}; end it with 'elastane down'")
    for stale in (PID, URL):
        (home / stale).unlink(missing_ok=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    nodes, warnings = nodes_here(options.nodes, options.slots)
    if options.restore:
        kept = Store.restore_good(home / DATABASE)
        logging.warning("went back to the last good copy of the store; the other is kept as %s", kept)
    store = Store.open(home / DATABASE)
    warnings = [*warnings, *store.warnings]
    plane = ControlPlane(
        ControlSettings(
            home, options.policy, options.interval_s, min_run_s=options.min_run_s, cores=shared_cores()
        ),
        store,
        LocalEngine(home, nodes),
    )
    ending: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _on_signals(ending)
    accounts = StoredAccounts(store, time.time)
    await plane.open()
    try:
        _first_token(home, store)
        app = create_app(LiveService(plane, warnings), accounts, _api(options))
        tls = (
            str(options.tls_cert) if options.tls_cert else None,
            str(options.tls_key) if options.tls_key else None,
        )
        async with serve(
            app, options.host, options.port, tls_cert=tls[0], tls_key=tls[1], insecure=options.insecure
        ) as url:
            _write(home / URL, url)
            _write(home / PID, str(os.getpid()))
            started(url, warnings)
            broken = asyncio.ensure_future(plane.failed())
            waited: set[asyncio.Future[Any]] = {ending, broken}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                await broken
            broken.cancel()
    finally:
        (home / PID).unlink(missing_ok=True)
        with contextlib.suppress(ElastaneError):
            accounts.flush()
        # Nobody asked us to end: jobs do not suffer from what broke here.
        await plane.close(leave_running=not ending.done() or ending.result())
        (home / URL).unlink(missing_ok=True)
        lock.release()


def _api(options: UpOptions) -> ApiSettings:
    names = () if options.host != "0.0.0.0" else (socket.gethostname(), socket.getfqdn())  # noqa: S104
    return ApiSettings(host=options.host, names=names, unavailable=(StaleControlPlane, StoreError))


def _on_signals(ending: asyncio.Future[bool]) -> None:
    def end(leave_running: bool) -> None:
        if not ending.done():
            ending.set_result(leave_running)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, False)
    loop.add_signal_handler(signal.SIGHUP, end, True)


def _make_home(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
    except OSError as error:
        raise ElastaneError(
            f"{home} cannot be the home of Elastane: {error.strerror}; set ELASTANE_HOME"
        ) from None


def _first_token(home: Path, store: Store) -> None:
    """An administrator and a token for whoever owns the home."""
    if (home / TOKEN).exists() and store.users():
        return
    with store.transaction() as t:
        if not any(user.name == ADMIN for user in store.users()):
            t.add_user(ADMIN, "admin")
        token = t.add_token(ADMIN, label="made by elastane up")
    _write(home / TOKEN, token.token)


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text + "\n")
    part.replace(path)


def start_detached(home: Path, arguments: Sequence[str]) -> Address:
    """``elastane up`` in the background; returns once it answers."""
    there = running(home)
    if there is not None:
        raise ElastaneError(f"Elastane runs on {home} already (process {there.pid}, {there.url})")
    _make_home(home)
    log = home / "elastane.log"
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "elastane", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "ELASTANE_HOME": str(home)},
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        there = running(home)
        if there is not None:
            return there
        if process.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            last = lines[-1] if lines else f"it ended with exit code {process.returncode}"
            raise ElastaneError(last.removeprefix("error: "))
        time.sleep(0.05)
    raise ElastaneError(f"Elastane did not start within {_START_S:g} s; see {log}")


def stop(home: Path, *, leave_running: bool) -> Address:
    """End what runs on a home, and wait for it."""
    there = running(home)
    if there is None:
        (home / PID).unlink(missing_ok=True)
        raise ElastaneError(f"Elastane does not run on {home}; start it with 'elastane up'")
    with contextlib.suppress(ProcessLookupError):
        os.kill(there.pid, signal.SIGHUP if leave_running else signal.SIGTERM)
    lock, deadline = Lock(home / LOCK), time.monotonic() + _STOP_S
    while lock.held and time.monotonic() < deadline:
        time.sleep(0.05)
    if lock.held:
        raise ElastaneError(
            f"process {there.pid} did not end within {_STOP_S:g} s; see {home / 'elastane.log'}"
        )
    return there
