"""Defines every message between an agent and the service's processes that ask it.

Agents outlive the service, also its upgrades: what is added gets a default, and unknown fields are ignored by both.
"""

from __future__ import annotations

from typing import Annotated, get_args

from msgspec import Meta, field

from elastane.train.coordinator.job_user import Identity
from elastane.train.coordinator.wire import Line, Message

Count = Annotated[int, Meta(ge=0, le=2**53)]


class BeginForkServer(Message, frozen=True, tag="nursery"):
    """Have a fork server for an attempt; harmless to repeat."""

    attempt: str
    environment: dict[str, str]
    log: str
    cold: bool
    python: str = ""
    """The interpreter; empty is the agent's own."""
    identity: Identity | None = None
    """The user who shall run it, if not the agent's own."""


class AskHope(Message, frozen=True, tag="hope"):
    """Ask whether there can be a fork server for an attempt."""

    attempt: str


class Limit(Message, frozen=True, tag="limit"):
    """Limit the memory, in bytes, of each of so many workers of an attempt."""

    attempt: str
    memory: Count
    workers: Count


class EndAttempt(Message, frozen=True, tag="end"):
    """End all that works for an attempt."""

    attempt: str


class FlushLogs(Message, frozen=True, tag="flush"):
    """Ask that all that workers of an attempt have printed so far be on the head."""

    attempt: str


class LookAt(Message, frozen=True, tag="look"):
    """Ask for the text of a small file that somebody has just written, to see whether both see the same disk."""

    path: str


class AskAgent(Message, frozen=True, tag="status"):
    """Ask for the fork servers there are."""


class Watch(Message, frozen=True, tag="watch"):
    """Ask for the fork servers there are, and for signs of life from then on."""


class ShutDown(Message, frozen=True, tag="shutdown"):
    """End everything on the node, and the agent."""


OfAttempt = BeginForkServer | AskHope | Limit | EndAttempt
ToAgent = OfAttempt | FlushLogs | LookAt | AskAgent | Watch | ShutDown
TO_AGENT: Line[ToAgent] = Line("the service", *get_args(ToAgent))


class Ok(Message, frozen=True, tag="ok"):
    """The request has been carried out."""


class Hopeless(Message, frozen=True, tag="hopeless"):
    """There can be no fork server for the attempt."""

    problem: str


class Unlimited(Message, frozen=True, tag="unlimited"):
    """This system cannot limit memory."""


class Unfinished(Message, frozen=True, tag="unfinished"):
    """Something of the attempt has not ended in time."""


class Seen(Message, frozen=True, tag="seen"):
    """The text of a file; empty if there is none that could be read."""

    text: str = ""


class AgentStatus(Message, frozen=True, tag="status"):
    """The process of each fork server, by attempt, and of the one that waits."""

    fork_servers: dict[str, int] = field(default_factory=dict, name="nurseries")
    spare: int | None = None


class AgentBeat(Message, frozen=True, tag="beat"):
    """A sign of life."""


class NotUnderstood(Message, frozen=True, tag="unknown"):
    """The agent did not know the request, and did nothing."""

    cause: str = ""


FromAgent = Ok | Hopeless | Unlimited | Unfinished | Seen | AgentStatus | AgentBeat | NotUnderstood
FROM_AGENT: Line[FromAgent] = Line("the agent", *get_args(FromAgent))
