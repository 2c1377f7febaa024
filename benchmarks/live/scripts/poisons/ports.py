"""Ports that a job knows of, or finds: its coordinator's, the agents', the API's."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator

from benchmarks.live.scripts.poisons.place import CONTROL, Place, deed
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.wire import encode

_JUNK = (
    os.urandom(5000) + b"\n",
    b"[" * 100_000 + b"\n",
    b"x" * (8 << 20),
    b'{"type":"login","role":[],"nonce":{}}\n{"type":5}\n',
    b'{"type":"login","role":"client","nonce":"\\ud800"}\n{"type":"proof","proof":"\\ud800"}\n',
    b"\n" * 100_000,
    b"GET / HTTP/1.1\r\n\r\n",
)
_IDLE = 300
_VALUES: tuple[object, ...] = (None, [], {}, -1, 10**300, "\ud800")


def _coordinator(place: Place) -> tuple[int, str]:
    """(port, token), as the environment or, in a command, the records tell."""
    port = int(os.environ.get("ELASTANE_COORDINATOR", ":0").rpartition(":")[2])
    token = os.environ.get("ELASTANE_JOB_TOKEN", "")
    with contextlib.suppress(OSError, ValueError, KeyError):
        facts = json.loads((place.records / CONTROL).read_text())
        port, token = int(facts["port"]), str(facts["token"])
    return port, token


def _agents(place: Place) -> Iterator[int]:
    for path in (place.home / "nodes").glob("*/agent.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            yield int(json.loads(path.read_text())["port"])


def _api(place: Place) -> int:
    return int((place.home / "url").read_text().strip().rstrip("/").rpartition(":")[2])


def _throw(port: int, data: bytes) -> None:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2.0) as line:
        line.sendall(data)
        time.sleep(0.05)


@deed
def junk_for_coordinator(place: Place) -> None:
    """What is no message."""
    port, _ = _coordinator(place)
    for data in _JUNK:
        _throw(port, data)


@deed
def junk_for_agents(place: Place) -> None:
    """The same for every agent of the cluster."""
    for port in _agents(place):
        for data in _JUNK:
            _throw(port, data)


@deed
def lies_for_coordinator(place: Place) -> None:
    """Messages with the right token and wrong content, as every role; none that ends the job before all are said."""
    port, token = _coordinator(place)
    orders = ("resize", "place", "status", "started", "exited", "event", "ready", "beat", "nonsense")
    for role in ("client", "worker", "nursery", "x"):
        hello: dict[str, object] = {
            "type": "hello",
            "worker": "w1",
            "node": [],
            "pids": {"w1": "x"},
        }
        for order in orders:
            for value in _VALUES:
                body: dict[str, object] = {
                    "type": order,
                    "workers": value,
                    "places": value,
                    "worker": value,
                    "event": value,
                    "pid": value,
                }
                _tell(port, role, token, [hello, body])


def _tell(port: int, role: str, token: str, lines: list[dict[str, object]]) -> None:
    with contextlib.suppress(OSError):  # most roles have another token
        connection = connect("127.0.0.1", port, role, token, timeout_s=2.0)
        for each in lines:
            connection.line.sendall(encode(each))
        connection.close()


_open: list[socket.socket] = []


@deed
def idle_connections(place: Place) -> None:
    """Hundreds of connections to every port, on which nothing is said."""
    port, _ = _coordinator(place)
    for each in (port, *_agents(place)):
        for _ in range(_IDLE):
            with contextlib.suppress(OSError):
                _open.append(socket.create_connection(("127.0.0.1", each), timeout=2.0))


@deed
def junk_for_api(place: Place) -> None:
    """What is no HTTP, and a hundred requests that never end."""
    port = _api(place)
    for data in _JUNK:
        _throw(port, data)
    for _ in range(100):
        with contextlib.suppress(OSError):
            line = socket.create_connection(("127.0.0.1", port), timeout=2.0)
            line.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            _open.append(line)
