"""Asks policies, in a thread and with a deadline: one that crashes or hangs changes nothing but a message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from elastane.cluster import Grant
from elastane.errors import ElastaneError
from elastane.policies.contract import Policy
from elastane.policies.lowering import Lowered, lower
from elastane.policies.plan import Plan
from elastane.policies.view import View

PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan and what it comes to."""

    plan: Plan
    lowered: Lowered
    took_ms: float


def decide_now(policy: Policy, view: View) -> Decision:
    """Ask and lower, here and now."""
    began = time.perf_counter()
    plan = policy.decide(view)
    lowered = lower(plan, view)
    return Decision(plan, lowered, (time.perf_counter() - began) * 1e3)


async def decide(policy: Policy, view: View, patience_s: float = PATIENCE_S) -> Decision | str:
    """The decision, or why there is none."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(decide_now, policy, view), patience_s)
    except TimeoutError:
        return f"policy {policy.label()} did not answer within {patience_s:g} s; the last plan stands"
    except ElastaneError as error:
        return f"policy {policy.label()} failed: {error}; the last plan stands"
    except Exception as error:  # a policy may be anybody's code
        return f"policy {policy.label()} crashed: {type(error).__name__}: {error}; the last plan stands"


@dataclass(slots=True)
class ShadowPolicy:
    """Another policy that is asked the same, and only watched."""

    policy: Policy
    memory: object = None
    decisions: int = 0
    differs: int = 0
    last: str = ""
    _differing: dict[str, str] = field(default_factory=dict)

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
