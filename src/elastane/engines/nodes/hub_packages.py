"""The hub's side of packages: an archive goes to a node that was told of it, as fast as the node takes it."""

from __future__ import annotations

import asyncio
import contextlib

from elastane.engines.local.paths import Layout
from elastane.engines.nodes.hub_node import RemoteNode
from elastane.engines.nodes.messages import Opened, Refused
from elastane.engines.nodes.package_store import PACKAGES, PackageStore
from elastane.engines.nodes.package_tree import PackageError
from elastane.train.coordinator import wire

_TAKEN_S = 60.0
"""How long a node may take to end its line once all was sent: what we end ourselves may be cut short."""


class HubPackages:
    """The packages below a home, for nodes."""

    def __init__(self, layout: Layout) -> None:
        self._store = PackageStore(layout.home / PACKAGES)

    async def send(
        self, digest: str, node: RemoteNode | None, stream: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a node's request for a package."""
        if node is None or not node.may_fetch(digest):
            writer.write(wire.encode_message(Refused("no attempt of this node was begun with that package")))
            return
        size = await asyncio.to_thread(self._store.size, digest)
        if size is None:
            gone = f"the head has package {digest[:12]} no longer; submit the job again"
            writer.write(wire.encode_message(Refused(gone, "missing")))
            return
        node.tunnels.add(writer)
        try:
            writer.write(wire.encode_message(Opened(size)))
            with contextlib.suppress(PackageError):  # it was removed at this moment: the line ends
                async with contextlib.aclosing(self._store.fetch(digest)) as pieces:  # type: ignore[type-var]
                    async for piece in pieces:
                        writer.write(piece)
                        await writer.drain()
                async with asyncio.timeout(_TAKEN_S):
                    await stream.read(1)
        finally:
            node.tunnels.discard(writer)
