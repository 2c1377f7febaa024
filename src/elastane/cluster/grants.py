"""Defines the grant, which is what a job holds: workers (and parameter servers) per node, and the batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples per GPU per pass, and extra accumulation passes before one optimizer step."""

    per_gpu: int
    accumulation: int = 0

    def total(self, workers: int) -> int:
        """Returns the samples in one optimizer step of so many workers."""
        return workers * self.per_gpu * (self.accumulation + 1)


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of a grant on one node.  ``devices`` empty means "any free ones, the engine picks"."""

    node: str
    workers: int
    servers: int = 0
    devices: tuple[int, ...] = ()
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Grant:
    """A gang of workers (and parameter servers).  Two equal grants mean: nothing to do, nothing to pay.

    ``batch`` is set only by policies that also choose the batch; otherwise the job's own agent does.
    """

    slices: tuple[Slice, ...]
    batch: Batch | None = None
    lease_until_s: float | None = None
    workers: int = field(init=False, repr=False, compare=False)
    """Workers over all nodes; kept, because it is asked for far more often than grants are made."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", sum(part.workers for part in self.slices))

    @classmethod
    def of(cls, counts: Iterable[tuple[str, int]], servers: Iterable[tuple[str, int]] = ()) -> Grant:
        """Makes a grant of ``(node, workers)`` pairs and optional ``(node, servers)`` pairs."""
        held: dict[str, list[int]] = {}
        for node, workers in counts:
            held.setdefault(node, [0, 0])[0] += workers
        for node, number in servers:
            held.setdefault(node, [0, 0])[1] += number
        return cls(tuple(Slice(node, w, p) for node, (w, p) in held.items() if w or p))

    def same_place(self, other: Grant) -> bool:
        """Tells whether both grants mean the same GPUs and batch; leases and the order of slices do not matter."""
        if self.slices == other.slices:
            return self.batch == other.batch
        return self.batch == other.batch and set(self.slices) == set(other.slices)

    @property
    def servers(self) -> int:
        """Parameter servers over all nodes."""
        return sum(part.servers for part in self.slices)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes in use, in slice order."""
        return tuple(part.node for part in self.slices)

    @property
    def shape(self) -> tuple[int, ...]:
        """Workers on each node that has any, in slice order."""
        return tuple(part.workers for part in self.slices if part.workers)
