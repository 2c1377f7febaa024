"""A plan says who trains in one generation; it is the only way membership ever changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from elastane.train.transport_choice import TransportKind


class Kind(StrEnum):
    """Why a generation began."""

    START = "start"
    GROW = "grow"
    SHRINK = "shrink"
    MOVE = "move"
    RECOVER = "recover"
    REBUILD = "rebuild"
    """The same members, over another transport."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Members in rank order; an old member always has rank 0, so that state is never lost by a change.

    An *urgent* plan is entered at once by members that are waiting for it.  Any other plan is prepared in the
    background while the generation before it goes on training, and entered at a step boundary.
    """

    generation: int
    kind: Kind
    members: tuple[str, ...]
    joiners: tuple[str, ...] = ()
    leavers: tuple[str, ...] = ()
    donors: Mapping[str, str] = field(default_factory=dict)
    """Which old member sends its state to which joiner (shadow join only)."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """host:port where each joiner listens for that state."""
    shadow: bool = False
    source: str | None = None
    """Member whose state everybody takes over when the plan is entered; None: states are equal already."""
    nodes: int = 1
    transport: TransportKind = TransportKind.GLOO_CPU
    """How gradients travel in it; earlier versions knew one way only, and do not say."""
    most: int = 0
    """Samples that a part of a step has at most, since more did not fit into memory; 0: as many as it takes."""
    at_loop: bool = False
    """Whether it is entered only where a loop over the data begins: the script counts its steps by itself."""

    @property
    def urgent(self) -> bool:
        """Whether members wait for this plan instead of training on."""
        return self.kind in (Kind.START, Kind.RECOVER)

    @property
    def concerned(self) -> Sequence[str]:
        """Whoever is told of it: members, and those who leave."""
        return list(dict.fromkeys((*self.members, *self.leavers)))

    def rank_of(self, worker: str) -> int | None:
        """The rank of a worker, or None if it is not a member."""
        return self.members.index(worker) if worker in self.members else None

    def to_json(self) -> dict[str, Any]:
        """JSON values, for the wire and the log."""
        values = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        return {**values, "transport": self.transport.value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Plan:
        """The inverse of ``to_json``."""
        return cls(
            generation=int(values["generation"]),
            kind=Kind(values["kind"]),
            members=tuple(values["members"]),
            joiners=tuple(values["joiners"]),
            leavers=tuple(values["leavers"]),
            donors=dict(values["donors"]),
            streams=dict(values["streams"]),
            shadow=bool(values["shadow"]),
            source=values["source"],
            nodes=int(values["nodes"]),
            transport=TransportKind(values.get("transport", TransportKind.GLOO_CPU.value)),
            most=int(values.get("most", 0)),
            at_loop=bool(values.get("at_loop", False)),
        )
