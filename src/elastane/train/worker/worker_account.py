"""A worker's account of itself: what a coordinator that replaces another has to be told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elastane.train.coordinator.messages import Entered, Ready, WorkerHello
from elastane.train.coordinator.worker_table import Phase
from elastane.train.transport_choice import UNTOLD, MemberDevice


@dataclass(frozen=True, slots=True)
class WorkerAccount:
    """How far a worker has come; a value, for the thread that trains makes it and the one that connects reads it."""

    phase: Phase = Phase.WARMING
    generation: int = 0
    applied: int = -1
    """Last optimizer step it has applied when a generation ended."""
    done: bool = False
    signature: Mapping[str, Any] = field(default_factory=dict)
    stream: str = ""
    device: MemberDevice = UNTOLD

    def ready(self, said: Ready) -> WorkerAccount:
        """Returns the account of a worker that may be planned in."""
        signature, stream, device = said.signature, said.stream, said.device
        return replace(self, phase=Phase.READY, signature=signature, stream=stream, device=device)

    def entered(self, said: Entered) -> WorkerAccount:
        """Returns the account of a member of this generation."""
        return replace(self, phase=Phase.MEMBER, generation=said.generation)

    def stopped_at(self, applied: int) -> WorkerAccount:
        """Returns the account of a worker whose generation ended after this step."""
        return replace(self, applied=applied)

    def finished(self) -> WorkerAccount:
        """Returns the account of a worker that has come to the end of training."""
        return replace(self, done=True)

    def hello(self, worker: str, node: str, host: str) -> WorkerHello:
        """Returns the first words to a coordinator, which may be a new one."""
        return WorkerHello(
            worker,
            node,
            host,
            phase=self.phase,
            generation=self.generation,
            applied=self.applied,
            done=self.done,
            signature=dict(self.signature),
            stream=self.stream,
            device=self.device,
        )
