"""``choose_transport`` says how the gradients of a generation travel, and why: a pure function without PyTorch.

The coordinator, which has no PyTorch, chooses; ``transports`` has the classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from elastane.train.errors import TrainError

TRANSPORT = "ELASTANE_TRANSPORT"
"""Set by the owner of a job: a ``TransportWish``."""
STAGED_NOTE = "gradients travel through main memory"


class TransportKind(Enum):
    """How gradients travel between members: through host memory with gloo, or from device to device."""

    GLOO_CPU = "gloo"
    STAGED = "staged"
    NCCL_LIKE = "nccl"


class TransportWish(Enum):
    """What the owner of a job asks for; on CPUs it makes no difference."""

    STAGED = "staged"
    NCCL = "nccl"
    """A communicator; where there can be none, it is said why."""
    AUTO = "auto"
    """A communicator where there can be one."""

    @property
    def communicator(self) -> bool:
        """Whether one is asked for."""
        return self is not TransportWish.STAGED


def wished(written: str | None) -> TransportWish:
    """What the variable says; staged where it is not set."""
    try:
        return TransportWish(written) if written is not None else TransportWish.STAGED
    except ValueError:
        words = ", ".join(wish.value for wish in TransportWish)
        raise TrainError(f"--transport ({TRANSPORT}): must be one of {words}, not {written!r}") from None


@dataclass(frozen=True, slots=True)
class MemberDevice:
    """What one member says of its device."""

    host: str = ""
    kind: str = "cpu"
    uuid: str = ""
    """Of the physical device; empty if it could not be told."""
    part: bool = False
    """Whether it is an instance (MIG) of a physical device."""
    lacking: str = ""
    """Why it cannot have a communicator, or nothing."""


UNTOLD = MemberDevice()
"""What a worker of an earlier version, which knows CPUs only, does not say."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A transport, and what a person should know about it."""

    kind: TransportKind
    note: str = ""


def choose_transport(members: Sequence[MemberDevice], urgent: bool, communicator: bool) -> Choice:
    """``communicator``: whether the user asked for one; who cannot train meanwhile (``urgent``) waits for none."""
    kinds = sorted({member.kind for member in members})
    if kinds == ["cpu"]:
        return Choice(TransportKind.GLOO_CPU)
    if not communicator or urgent or len(members) == 1:
        return Choice(TransportKind.STAGED)
    problem = _problem(members, kinds)
    return (
        Choice(TransportKind.STAGED, f"{problem}: {STAGED_NOTE}")
        if problem
        else Choice(TransportKind.NCCL_LIKE)
    )


def _problem(members: Sequence[MemberDevice], kinds: Sequence[str]) -> str:
    if len(kinds) > 1:
        return f"devices of several kinds ({', '.join(kinds)}) cannot talk to each other"
    for member in members:
        if member.lacking:
            return member.lacking
        if member.part:
            return f"{member.uuid or 'a device'} is a part of a GPU, and NCCL wants whole ones"
        if not member.uuid:
            return "nobody can tell whether two workers use the same device"
    (host, uuid), count = Counter((member.host, member.uuid) for member in members).most_common(1)[0]
    return f"{count} workers use {uuid} on {host}, and NCCL does not allow that" if count > 1 else ""
