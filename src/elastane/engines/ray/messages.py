"""Defines what the control plane and its warden tell each other: JSON lines on the warden's input and output."""

from __future__ import annotations

from typing import get_args

from msgspec import field

from elastane.train.coordinator.wire import Line, Message


class PoolWish(Message, frozen=True):
    """So many pilots of one kind: each of them is demand to Ray's autoscaler until it has a node."""

    count: int
    gpus: float = 0.0
    cpus: float = 1.0
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of Ray that a node must have."""


class Wish(Message, frozen=True, tag="wish"):
    """The complete state that the warden shall bring about; harmless to repeat."""

    join: str
    """The join string that pilots hand to ``elastane node``."""
    pools: dict[str, PoolWish] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    """Nodes, by name, that a pool that shrinks must not give back."""
    every_node: bool = True
    """Have a pilot on every node that Ray has; else on those of pools and on those with our label."""
    none: bool = False
    """Have no pilot at all."""


ToWarden = Wish
TO_WARDEN: Line[Wish] = Line("the control plane", Wish)


class RayNode(Message, frozen=True):
    """A node as Ray tells of it."""

    id: str
    name: str
    address: str
    gpus: float = 0.0
    cpus: float = 0.0
    pool: str = ""
    pilot: bool = False
    """One of our pilots holds it."""


class WardenState(Message, frozen=True, tag="state"):
    """What the warden sees, after every look."""

    nodes: tuple[RayNode, ...] = ()
    waiting: dict[str, int] = field(default_factory=dict)
    """Pilots without a node, by pool."""
    version: str = ""


class WardenProblem(Message, frozen=True, tag="problem"):
    """Why the warden ends, in one sentence; ``lasting`` if trying again does not help."""

    problem: str
    lasting: bool = False


FromWarden = WardenState | WardenProblem
FROM_WARDEN: Line[FromWarden] = Line("the warden", *get_args(FromWarden))
