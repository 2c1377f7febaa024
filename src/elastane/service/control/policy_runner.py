"""Asks policies, in a thread and with a deadline: one that crashes or hangs changes nothing but a message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from elastane.cluster import Grant
from elastane.engines.deadline_threads import start_aside
from elastane.errors import ElastaneError
from elastane.policies.contract import Policy
from elastane.policies.view import View
from elastane.scheduling.decide import Decision, decide

PATIENCE_S = 10.0


def crash_of(policy: Policy, error: Exception) -> str:
    """What went wrong, in one line."""
    words = " ".join(str(error).split())
    if isinstance(error, ElastaneError):
        return f"policy {policy.label()} failed: {words}"
    return f"policy {policy.label()} crashed: {type(error).__name__}: {words}"


class PolicyRunner:
    """Asks policies, each in a thread of its own: one that never returns takes nothing from the others with it."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._hanging: list[tuple[Policy, threading.Thread]] = []

    async def ask(self, policy: Policy, view: View) -> Decision | str:
        """The decision, or why there is none."""
        self._hanging = [(who, thread) for who, thread in self._hanging if thread.is_alive()]
        if any(who is policy for who, _ in self._hanging):
            return f"policy {policy.label()} has not come back from an earlier decision; the last plan stands"
        answer, thread = start_aside(partial(decide, policy, view), "policy")
        try:
            return await asyncio.wait_for(answer, self._patience_s)
        except TimeoutError:
            self._hanging.append((policy, thread))
            return f"policy {policy.label()} did not answer within {self._patience_s:g} s; the last plan stands"
        except Exception as error:  # a policy may be anybody's code
            return f"{crash_of(policy, error)}; the last plan stands"


@dataclass(slots=True)
class ShadowPolicy:
    """Another policy that is asked the same, and only watched."""

    policy: Policy
    memory: object = None
    decisions: int = 0
    differs: int = 0
    last: str = ""

    def compare(self, answer: Decision | str, grants: Mapping[str, Grant]) -> None:
        """Count where it would have done otherwise."""
        if isinstance(answer, str):
            self.last = answer
            return
        self.memory = answer.plan.memory
        self.decisions += 1
        theirs = {job: grant.workers for job, grant in answer.lowered.grants.items()}
        ours = {job: grant.workers for job, grant in grants.items()}
        different = sorted(job for job in {*theirs, *ours} if theirs.get(job, 0) != ours.get(job, 0))
        self.differs += bool(different)
        self.last = "; ".join(
            f"{job}: {theirs.get(job, 0)} workers instead of {ours.get(job, 0)}" for job in different[:5]
        )
