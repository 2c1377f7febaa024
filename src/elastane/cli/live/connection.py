"""Opens the client with which the verbs ask the server; it is imported only then, so that ``--help`` is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastane.client.client import Client


def connect() -> Client:
    """A client of the server that this machine's settings name."""
    from elastane.client import Client

    return Client()
