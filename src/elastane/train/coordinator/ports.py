"""A port on which a group of processes can meet, chosen before any of them runs."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 20000, 32767
"""Below the range from which systems take the ports of outgoing connections: nothing slips in by chance between
the choice and the script's first listening, which may be seconds later."""
_TRIES = 100


def free_port(host: str, chance: random.Random) -> int:
    """A port nobody listens on at this moment."""
    for _ in range(_TRIES):
        port = chance.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {_FIRST} and {_LAST} on {host}")
