"""Membership is the group that this worker trains in now, and its way into the next one.

``Membership`` is a worker alone.  ``StaticMembership`` is a fixed group started by torchrun.
``ElasticMembership`` (next door) follows a coordinator's plans.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.distributed.rendezvous import rendezvous

from elastane.train.device import Device, Mark
from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.reduce.contract import Collective
from elastane.train.transport_choice import TransportKind
from elastane.train.transports import Transport, through_host
from elastane.train.worker.group import Group
from elastane.train.worker.live_join import ShadowReceiver, ShadowSender
from elastane.train.worker.replica_state import TrainingState

_HOST = Device()


class Replication(Protocol):
    """The two ends of a shadow join, where a newcomer can repeat this worker's updates."""

    def sender(self, target: str, token: str, generation: int) -> ShadowSender:
        """A new stream of this worker's state, to a newcomer of this generation."""
        ...

    def follow(self, receiver: ShadowReceiver, caught_up: Callable[[], None]) -> int:
        """Become a replica of the worker that sends; returns the step."""
        ...


class Crew(Protocol):
    """What membership needs of the training it serves."""

    state: TrainingState

    @property
    def step(self) -> int:
        """Optimizer steps made here."""
        ...

    @property
    def tick(self) -> int:
        """Everything completed together so far: of two workers the one with more is ahead."""
        ...

    @property
    def replication(self) -> Replication | None:
        """How a newcomer follows this worker; None where it can only take over a copy."""
        ...

    def signature(self) -> Mapping[str, Any]:
        """What must be equal between workers."""
        ...

    def restore(self, generation: int = 0) -> None:
        """Go back to the last checkpoint, if there is one, for this generation (only one worker is asked)."""
        ...

    def stored_generation(self) -> int:
        """The latest generation that has left anything where checkpoints lie; 0 if none has."""
        ...

    def rewind(self) -> None:
        """Undo what a step under way has done to the model: others may be about to take its state over."""
        ...

    def changed(self, change: Change) -> None:
        """Adapt to other members, ranks and shares."""
        ...


@dataclass(slots=True)
class Change:
    """One change of members as this worker saw it; seconds, on its clock."""

    kind: str
    generation: int
    before: int
    after: int
    shadow: bool = False
    why: str = ""
    breakdown: dict[str, float] = field(default_factory=dict)

    @property
    def pause_s(self) -> float:
        """How long training stood still here."""
        return sum(self.breakdown.values())


class Membership:
    """A worker alone: nobody comes, nobody goes."""

    def __init__(self, device: Device = _HOST) -> None:
        self.device = device
        """Where this worker trains."""
        self.rank = 0
        self.world = 1
        self.generation = 0
        self.nodes = 1
        self.most = 0
        """Samples that a part of a step has at most, as members have agreed; 0: as many as it takes."""
        self.transport: Transport | None = None
        """How gradients travel between the members of the group."""
        self._group: Group | None = None
        self.elastic = False
        self._stop: str | None = None

    @property
    def group(self) -> Group | None:
        """The members' group, for what lies on the host; None without others."""
        return self._group

    @group.setter
    def group(self, group: Group | None) -> None:
        self._use(group, through_host(group, self.device) if group is not None else None)

    def _use(self, group: Group | None, transport: Transport | None) -> None:
        """From now on train with these."""
        before = self.transport
        self._group, self.transport = group, transport
        if before is not None and before.kind is not TransportKind.NCCL_LIKE:
            before.close()  # closing a communicator is a matter of all its members

    @property
    def reduces_by(self) -> Collective | None:
        """What reducers are given; ``believe`` has to follow before anything is made of the result."""
        return None if self.transport is None else self.transport.in_order

    def believe(self, moment: Mark) -> None:
        """Wait for a moment of the device behind a reduction; raises MembershipChanged if that was aborted."""
        if self.transport is None:
            moment.wait()
        else:
            self.transport.confirm(moment)

    def name_of(self, rank: int) -> str:
        """What to call a member in reports."""
        return f"rank {rank}"

    def join(self, crew: Crew) -> None:
        """Take part; returns with the state everybody has."""
        crew.restore()

    def next_generation(self) -> int:
        """Leader: the generation that may be entered now, or 0."""
        return 0

    def next_at_loop(self) -> int:
        """Leader: the generation that may be entered where the next loop over the data begins, or 0."""
        return 0

    def strayed(self) -> None:
        """A newcomer was in another loop of the script than the others."""

    def stop_cause(self) -> str | None:
        """Why to leave at the next boundary, if so."""
        return self._stop

    def ask_to_stop(self, why: str) -> None:
        """This process was asked to go."""
        self._stop = why

    def doing(self, what: str, step: int) -> None:
        """Where the training thread is, for whoever watches."""

    def parts(self, samples: int) -> None:
        """The largest part of the step that begins; 0: memory runs out, but not in a step."""

    def boundary(self, crew: Crew) -> None:
        """A step has ended and the next has not begun."""

    def refuse_streams(self, why: str) -> None:
        """Newcomers cannot follow any more."""

    def yield_gradients(self) -> None:
        """The reduced gradient of the last step is about to be overwritten."""

    def yield_parameters(self) -> None:
        """The optimizer is about to make a step; ``applied`` follows."""

    def applied(self, step: int, gradient: Any, groups: Callable[[], list[dict[str, Any]]]) -> None:
        """An optimizer step was made."""

    def switch(self, generation: int, crew: Crew) -> None:  # noqa: ARG002
        """Everybody has agreed to enter this generation."""
        raise AssertionError("nobody to agree with")

    def recover(self, crew: Crew, why: str, waited_s: float = 0.0) -> None:  # noqa: ARG002
        """The group broke; ``waited_s`` is how long it took to show."""
        raise TrainError(f"another worker was lost: {why}")

    def report(self, event: Mapping[str, Any]) -> None:
        """Pass an event on."""

    def finish(self, step: int) -> None:
        """Training has come to its end."""

    def goodbye(self, cause: str) -> None:
        """Say why this process ends."""


class _KeptExchange:
    """Addresses through the store that torchrun gave us."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, rank: int, data: bytes) -> None:
        self._store.set(f"elastane/{rank}", data)

    def get(self, rank: int, timeout_s: float) -> bytes:  # noqa: ARG002 (the store has its own)
        value: bytes = self._store.get(f"elastane/{rank}")
        return value


class StaticMembership(Membership):
    """A fixed group, as torchrun starts it; a failure ends this process, and torchrun starts it again."""

    def __init__(self, device: Device = _HOST) -> None:
        super().__init__(device)
        store, self.rank, self.world = next(iter(rendezvous("env://")))
        local = int(os.environ.get("LOCAL_WORLD_SIZE", self.world))
        self.nodes = max(1, self.world // max(1, local))
        self._store = store
        if self.world > 1:
            host = os.environ.get("ELASTANE_HOST", "")
            self.group = Group(self.rank, self.world, _KeptExchange(store), host=host)

    def join(self, crew: Crew) -> None:
        """The first rank restores; the others take over its state."""
        if self.rank == 0:
            crew.restore()
        if self.group is not None:
            crew.state.share(self.group, 0)

    def finish(self, step: int) -> None:  # noqa: ARG002
        """A failure here means that others have left already: nothing is missing."""
        group, self.group = self.group, None
        if group is not None:
            with contextlib.suppress(MembershipChanged):
                group.all_reduce(torch.zeros(1))
            group.retire()
