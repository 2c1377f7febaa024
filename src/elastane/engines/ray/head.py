"""Starts a head of Ray on this machine, guarded by a token of its own, for whoever has no Ray cluster yet.

It outlives the control plane, as agents do, and ends with ``elastane down``; it runs no work itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.nodes.places import way_out, written
from elastane.errors import ElastaneError

_TOKEN, _HEAD, _LOG = "token", "head.json", "head.log"
_STARTED = b"Ray runtime started"
_START_S, _LOOK_S, _END_S = 120.0, 0.1, 10.0


def start_head(home: Path, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Have a head, which may run already; its address, and the environment that opens it.

    Raises:
        ElastaneError: it does not start; the message has its last line.
    """
    folder = home / "ray"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = folder / _TOKEN
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
    opened = {**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    opened.pop("RAY_AUTH_TOKEN", None)
    known = read_json(folder / _HEAD)
    if known is not None and _is_ours(int(known["pid"])):
        return str(known["address"]), opened
    address, port = way_out(), _free_port()
    words = ["start", "--head", "--block", f"--node-ip-address={address}", f"--port={port}", "--num-cpus=0"]
    words += ["--num-gpus=0", "--include-dashboard=false", "--disable-usage-stats"]
    log = folder / _LOG
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "ray.scripts.scripts", *words],
            env={**opened, "RAY_raylet_start_wait_time_s": str(_START_S)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
        )
    write_json(folder / _HEAD, {"pid": process.pid, "address": written(address, port)})
    deadline = time.monotonic() + _START_S
    while _STARTED not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            end_head(home)
            lines = log.read_text(errors="replace").strip().splitlines()
            raise ElastaneError(
                f"--engine ray: Ray does not start here ({lines[-1] if lines else 'without a word'})"
            )
        time.sleep(_LOOK_S)
    return written(address, port), opened


def end_head(home: Path) -> None:
    """End the head that was started here, if one was, and all of its processes."""
    folder = home / "ray"
    known = read_json(folder / _HEAD)
    if known is None:
        return
    pid = int(known["pid"])
    deadline = time.monotonic() + _END_S
    for number in (signal.SIGTERM, signal.SIGKILL):
        if _is_ours(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        while number is signal.SIGTERM and _is_ours(pid) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
    (folder / _HEAD).unlink(missing_ok=True)


def how_to_join(home: Path) -> str:
    """What makes another machine part of the Ray cluster that was started here; empty if none was."""
    known = read_json(home / "ray" / _HEAD)
    if known is None:
        return ""
    return (
        f"RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=FILE ray start --address={known['address']} --block  "
        f"(FILE: a copy of {home / 'ray' / _TOKEN})"
    )


def _is_ours(pid: int) -> bool:
    """Whether a process is a head that we started: numbers are given again."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"ray.scripts.scripts" in words and b"--head" in words and not _is_zombie(pid)
    return False


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _free_port() -> int:
    with socket.create_server(("", 0)) as probe:
        return int(probe.getsockname()[1])
