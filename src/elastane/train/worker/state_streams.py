"""The donor's side of shadow joins: the streams of state that this worker sends to newcomers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elastane.train.coordinator.membership_plan import Plan
from elastane.train.worker.live_join import ShadowSender
from elastane.train.worker.membership import Crew, Replication


class StateStreams:
    """The senders of one worker: open while a newcomer follows, finishing once it is a member."""

    def __init__(self, worker: str, token: str) -> None:
        self._worker = worker
        self._token = token
        self._open: list[ShadowSender] = []
        self._finishing: list[ShadowSender] = []
        self._unfollowable = ""
        """Why nobody can follow this worker, if that was found out at a switch."""

    def boundary(self, plan: Plan | None, crew: Crew) -> list[tuple[int, str]]:
        """Open and cancel streams as the plan says, and send on.

        Returned are generations whose newcomers cannot follow, and why: they join by a copy.
        """
        self._keep_to(plan)
        replication, problems = crew.replication, []
        if plan is not None and plan.shadow and not self._open:
            joiners = [joiner for joiner, donor in plan.donors.items() if donor == self._worker]
            if replication is not None:
                self._open = [self._opened(replication, plan, joiner) for joiner in joiners]
            elif joiners:
                problems = [(plan.generation, "optimizer steps cannot be repeated any more")]
        for sender in self._open:
            sender.boundary(crew.step)
        problems += [(sender.generation, sender.problem) for sender in self._open if sender.problem]
        self._open = [sender for sender in self._open if not sender.problem]
        self._finishing = [sender for sender in self._finishing if not sender.done]
        return problems

    def _keep_to(self, plan: Plan | None) -> None:
        """Cancel the streams that are not for this plan."""
        wanted = plan.generation if plan is not None and plan.shadow else 0
        for sender in self._open:
            if sender.generation != wanted:
                sender.cancel()
        self._open = [sender for sender in self._open if sender.generation == wanted]

    def _opened(self, replication: Replication, plan: Plan, joiner: str) -> ShadowSender:
        sender = replication.sender(plan.streams[joiner], self._token, plan.generation)
        if self._unfollowable:
            sender.refuse(self._unfollowable)
        return sender

    def finish(self, step: int) -> list[ShadowSender]:
        """The newcomers are members from here on; returns the senders of what they still need."""
        senders, self._open = self._open, []
        for sender in senders:
            sender.finish(step)
            # Found out too late for this one, which has to begin again: the next is copied from the start.
            self._unfollowable = self._unfollowable or sender.problem
        self._finishing += senders
        return senders

    def cancel(self) -> None:
        """No newcomer is wanted any more; those that were promised the whole state still get it."""
        for sender in self._open:
            sender.cancel()
        self._open = []
        self.yield_gradients()

    def refuse(self, why: str) -> None:
        """Newcomers cannot follow any more: they join by a copy."""
        for sender in self._open:
            sender.refuse(why)

    def yield_gradients(self) -> None:
        """The reduced gradient of the last step is about to be overwritten."""
        for sender in (*self._open, *self._finishing):
            sender.yield_gradients()

    def yield_parameters(self) -> None:
        """The optimizer is about to make a step; ``applied`` follows."""
        for sender in (*self._open, *self._finishing):
            sender.yield_parameters()

    def applied(self, step: int, gradient: Any, groups: Callable[[], list[dict[str, Any]]]) -> None:
        """The optimizer has made a step with this gradient and these settings."""
        for sender in self._open:
            sender.applied(step, gradient, groups())
