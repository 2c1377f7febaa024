"""One process that is the whole live system: control plane, engine and API on one home."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from elastane.engines.local.engine import LocalEngine
from elastane.engines.local.json_files import Lock
from elastane.engines.local.paths import Layout
from elastane.engines.machines import Machines
from elastane.engines.nodes.joining import admission
from elastane.engines.ray.head import end_head
from elastane.engines.ray.options import supplier
from elastane.errors import ElastaneError
from elastane.service.api.app import create_app
from elastane.service.api.server import bind, check_exposure, serve
from elastane.service.api.settings import ApiSettings
from elastane.service.control.plane import ControlPlane, ControlSettings
from elastane.service.home import (
    DATABASE,
    LEASH,
    LEFT,
    LOCK,
    PID,
    TOKEN,
    URL,
    UpOptions,
    close_home,
    make_home,
    running,
    write_text,
)
from elastane.service.live_service import LiveService
from elastane.service.machine import divide
from elastane.service.store import StaleControlPlane, Store, StoreError
from elastane.service.stored_accounts import StoredAccounts

ADMIN = "admin"
_LEASH_S = 0.5
_SWITCH_S = 0.001
"""How long a thread that computes (a policy, say) may keep the others from running: requests are answered meanwhile."""
_LATER = "elastane.predict.eta"
"""Imported once we serve: nobody has asked how long a job will take before somebody could."""


async def run(options: UpOptions, started: Callable[[str, Sequence[str]], None]) -> None:
    """Until SIGINT or SIGTERM: then everything is saved and ended.  SIGHUP leaves jobs running."""
    home = options.home
    make_home(home)
    lock = Lock(home / LOCK)
    if not lock.take():
        there = running(home)
        where = f" (process {there.pid}, {there.url})" if there else ""
        raise ElastaneError(f"Elastane runs on {home} already{where}; end it with 'elastane down'")
    close_home(home, entered=not options.jobs_as.shared)
    if not options.jobs_as.shared:
        os.umask(0o077)  # nothing that is written here is for those who may pass through
    for stale in (PID, URL, LEFT):
        (home / stale).unlink(missing_ok=True)
    sys.setswitchinterval(_SWITCH_S)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    division = divide(options.nodes, options.slots)
    if options.restore:
        kept = Store.restore_good(home / DATABASE)
        logging.warning("went back to the last good copy of the store; the other is kept as %s", kept)
    store = Store.open(home / DATABASE)
    warnings = [*division.warnings, *store.warnings, *filter(None, [options.jobs_as.note])]
    plane = ControlPlane(
        ControlSettings(
            home,
            options.policy,
            options.interval_s,
            min_run_s=options.min_run_s,
            checkpoints=options.checkpoints,
            pending_per_tenant=options.limits.pending_per_tenant,
        ),
        store,
        LocalEngine(
            home, division.nodes, division.devices, options.jobs_as, options.listen, _machines(options)
        ),
    )
    ending: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _on_signals(ending)
    leash = asyncio.create_task(_leashed(ending))
    accounts = StoredAccounts(store, time.time, options.limits.tokens_per_user)
    # First what can fail because of what is asked for: agents and their processes would be left behind.
    listening = _listening(options)
    await plane.open()
    served = False
    try:
        _first_token(home, store)
        app = create_app(LiveService(plane, warnings), accounts, _api(options))
        tls = (
            str(options.tls_cert) if options.tls_cert else None,
            str(options.tls_key) if options.tls_key else None,
        )
        async with serve(
            app,
            options.host,
            options.port,
            tls_cert=tls[0],
            tls_key=tls[1],
            insecure=options.insecure,
            listening=listening,
        ) as url:
            if not await _has_begun(plane, ending):
                return
            served = True
            write_text(home / URL, url)
            write_text(home / PID, str(os.getpid()))
            started(url, warnings)
            ready = asyncio.ensure_future(asyncio.to_thread(importlib.import_module, _LATER))
            ready.add_done_callback(lambda done: done.exception())  # whoever needs it is told
            broken = asyncio.ensure_future(plane.failed())
            waited: set[asyncio.Future[Any]] = {ending, broken}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                await broken
            broken.cancel()
    finally:
        leash.cancel()
        (home / PID).unlink(missing_ok=True)
        with contextlib.suppress(ElastaneError):
            accounts.flush()
        # Nobody asked us to end: jobs do not suffer from what broke here.  Without any there is nothing to leave.
        leave_running = ending.result() if ending.done() else served or plane.has_work
        words = await plane.close(leave_running=leave_running)
        if not leave_running:
            await asyncio.to_thread(end_head, home)
        with contextlib.suppress(OSError):
            write_text(home / LEFT, words)
        (home / URL).unlink(missing_ok=True)
        lock.release()


async def _has_begun(plane: ControlPlane, ending: asyncio.Future[bool]) -> bool:
    """Whether the first round was made, so that who is told that we are up can rely on it; False if we are to end.

    Raises if no round can be made.
    """
    first = asyncio.ensure_future(plane.first_round())
    waited: set[asyncio.Future[Any]] = {first, ending}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if not first.done():
        first.cancel()
        return False
    await first
    return True


def _machines(options: UpOptions) -> Machines | None:
    """What supplies machines, if anything shall."""
    if options.machines is None:
        return None
    cluster = admission(Layout(options.home).hub).cluster
    return supplier(options.machines, options.home, cluster)


def _listening(options: UpOptions) -> socket.socket:
    check_exposure(options.host, tls=options.tls_cert is not None, insecure=options.insecure)
    return bind(options.host, options.port)


def _api(options: UpOptions) -> ApiSettings:
    names = () if options.host != "0.0.0.0" else (socket.gethostname(), socket.getfqdn())  # noqa: S104
    return ApiSettings(host=options.host, names=names, unavailable=(StaleControlPlane, StoreError))


async def _leashed(ending: asyncio.Future[bool]) -> None:
    """Ends the system when the process that started it (``LEASH``) is gone; without one it runs on."""
    holder = os.environ.pop(LEASH, "")  # not for those whom we start
    while holder and os.getppid() == int(holder):
        await asyncio.sleep(_LEASH_S)
    if holder and not ending.done():
        ending.set_result(False)


def _on_signals(ending: asyncio.Future[bool]) -> None:
    def end(leave_running: bool) -> None:
        if not ending.done():
            ending.set_result(leave_running)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, False)
    loop.add_signal_handler(signal.SIGHUP, end, True)


def _first_token(home: Path, store: Store) -> None:
    """Creates an administrator and a token for the owner of the home, unless there is one."""
    if (home / TOKEN).exists() and store.accounts.users():
        return
    with store.transaction() as t:
        if not any(user.name == ADMIN for user in store.accounts.users()):
            t.accounts.add_user(ADMIN, "admin")
        token = t.accounts.add_token(ADMIN, label="made by elastane up")
    write_text(home / TOKEN, token.token)
