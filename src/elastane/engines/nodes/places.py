"""Finds the address at which other machines reach this one, and where the hub said that it listens."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from pathlib import Path

from elastane.engines.local.json_files import Lock, read_json
from elastane.engines.local.paths import Layout
from elastane.errors import ElastaneError

HUB = "hub.json"
LOOPBACK = "127.0.0.1"
_ELSEWHERE = ("192.0.2.1", 9)
"""An address that nobody has: asking for the way there sends nothing."""


def parse_address(text: str, option: str) -> tuple[str, int]:
    """``HOST:PORT`` as a pair; a number in brackets is an IPv6 address.

    >>> parse_address("[::1]:7077", "--listen"), parse_address("head:7077", "--listen")
    (('::1', 7077), ('head', 7077))
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ElastaneError(f"{option}: must be HOST:PORT, as 0.0.0.0:7077, not {text!r}")
    return host, int(port)


def written(host: str, port: int) -> str:
    """The inverse of ``parse_address``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def advertised(host: str) -> str:
    """The address to tell others for one that is listened on: of all addresses, the one of the way out."""
    try:
        anywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host
    return way_out() if anywhere else host


def way_out() -> str:
    """This machine's address on the way to other networks; loopback if there is none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_ELSEWHERE)
        return str(probe.getsockname()[0])
    return LOOPBACK


def loopback_port(address: str) -> int:
    """The port of an address on this machine's loopback; 0 if it is none."""
    host, _, port = address.rpartition(":")
    return int(port) if host == LOOPBACK and port.isdigit() else 0


def joins_at(home: Path) -> str:
    """Where nodes on other machines join the system of a home, as ``HOST:PORT``; empty if they cannot."""
    layout = Layout(home)
    facts = read_json(layout.hub / HUB) if Lock(layout.hub_lock).held else None
    return written(str(facts["address"]), int(facts["port"])) if facts is not None else ""


def address_of_head(layout: Layout) -> str:
    """Where nodes on other machines reach the head; empty while none can join."""
    facts = read_json(layout.hub / HUB) if Lock(layout.hub_lock).held else None
    return str(facts.get("address", "")) if facts is not None else ""
