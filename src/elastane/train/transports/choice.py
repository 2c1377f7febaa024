"""``choose_transport`` says how the gradients of a generation travel, and why: a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from elastane.train.transports.contract import TransportKind

STAGED_NOTE = "gradients travel through main memory"


@dataclass(frozen=True, slots=True)
class MemberDevice:
    """What one member says of its device."""

    host: str
    kind: str = "cpu"
    uuid: str = ""
    """Of the physical device; empty if it could not be told."""
    part: bool = False
    """Whether it is an instance (MIG) of a physical device."""
    lacking: str = ""
    """Why it cannot have a communicator, or nothing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A transport, and what a person should know about it."""

    kind: TransportKind
    note: str = ""


def choose_transport(members: Sequence[MemberDevice], recovering: bool, communicator: bool) -> Choice:
    """``communicator``: whether the user asked for one; after a death none is waited for (``recovering``)."""
    kinds = sorted({member.kind for member in members})
    if kinds == ["cpu"]:
        return Choice(TransportKind.GLOO_CPU)
    if not communicator or recovering or len(members) == 1:
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
