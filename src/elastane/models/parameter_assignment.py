"""Assigns parameters to parameter servers: Optimus's assignment (PAA), and MXNet's default for comparison.

A step waits for its busiest server, so two spreads matter: parameters per server (bytes on the wire) and
requests per server (fixed cost of each).  Reference: Peng et al., Optimus, EuroSys 2018, section 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elastane.errors import ElastaneError

SMALL_SHARE = 0.01
"""Blocks below this share of an average server go wherever there are fewest requests."""

MXNET_BIG_BLOCK = 1_000_000
"""MXNet cuts blocks from this many parameters on (MXNET_KVSTORE_BIGARRAY_BOUND)."""

_MXNET_HASH = 9973


@dataclass(frozen=True, slots=True)
class Piece:
    """A block, or part of one, on one server; one request per step."""

    block: int
    server: int
    parameters: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """All pieces of a model on ``servers`` parameter servers."""

    servers: int
    pieces: tuple[Piece, ...]

    @property
    def parameters(self) -> tuple[int, ...]:
        """Parameters on each server."""
        held = [0] * self.servers
        for piece in self.pieces:
            held[piece.server] += piece.parameters
        return tuple(held)

    @property
    def requests(self) -> tuple[int, ...]:
        """Requests each server answers per step and worker."""
        asked = [0] * self.servers
        for piece in self.pieces:
            asked[piece.server] += 1
        return tuple(asked)

    @property
    def size_spread(self) -> int:
        """Parameters on the fullest server above those on the emptiest."""
        return max(self.parameters) - min(self.parameters)

    @property
    def request_spread(self) -> int:
        """Requests to the busiest server above those to the idlest."""
        return max(self.requests) - min(self.requests)


def assign(blocks: Sequence[int], servers: int) -> Assignment:
    """Optimus's PAA: largest block first, average size avg = total / servers.

    A block below 1 % of avg goes to the server with the fewest requests; up to avg to the best fit (the least
    room that still holds it, else the emptiest server); above avg it is cut into pieces of avg, each to the
    emptiest server.
    """
    _check(blocks, servers)
    average = sum(blocks) / servers
    sizes, requests = [0] * servers, [0] * servers
    pieces: list[Piece] = []
    for block in sorted(range(len(blocks)), key=lambda i: (-blocks[i], i)):
        for part in _cut(blocks[block], average):
            server = _choose(part, blocks[block], average, sizes, requests)
            sizes[server] += part
            requests[server] += 1
            pieces.append(Piece(block, server, part))
    return Assignment(servers, tuple(pieces))


def assign_mxnet(blocks: Sequence[int], servers: int, big_block: int = MXNET_BIG_BLOCK) -> Assignment:
    """MXNet's default: a block below ``big_block`` to a hashed server, any other cut evenly over all."""
    _check(blocks, servers)
    pieces: list[Piece] = []
    for block, size in enumerate(blocks):
        if size < big_block:
            pieces.append(Piece(block, block * _MXNET_HASH % servers, size))
            continue
        edges = [round(size * i / servers) for i in range(servers + 1)]
        pieces += [Piece(block, i, edges[i + 1] - edges[i]) for i in range(servers)]
    return Assignment(servers, tuple(pieces))


def _check(blocks: Sequence[int], servers: int) -> None:
    if servers < 1:
        raise ElastaneError(f"parameters need at least one server, not {servers}")
    if any(size < 1 for size in blocks):
        raise ElastaneError("every parameter block must hold at least one parameter")


def _cut(size: int, average: float) -> list[int]:
    """A block as pieces of at most the average; whole when it is no larger."""
    if size <= average:
        return [size]
    step = math.ceil(average)  # rounded down, a crumb would be left over and cost a request of its own
    return [min(step, size - start) for start in range(0, size, step)]


def _choose(part: int, block: int, average: float, sizes: list[int], requests: list[int]) -> int:
    servers = range(len(sizes))
    if block < SMALL_SHARE * average:
        return min(servers, key=lambda i: (requests[i], sizes[i]))
    holding = [i for i in servers if average - sizes[i] >= part] if block <= average else []
    if holding:
        return max(holding, key=lambda i: (sizes[i], -i))
    return min(servers, key=lambda i: (sizes[i], i))
