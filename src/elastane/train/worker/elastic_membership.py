"""Membership by plan: groups built in the background, entered at a boundary, given up when a member dies.

It moves state between workers, but does not know what training is.  The client's thread prepares, cancels and
aborts; everything else runs in the training thread.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.messages import (
    Apart,
    Built,
    CaughtUp,
    Done,
    Entered,
    Failed,
    Lagging,
    Leave,
    Left,
    LoopBegins,
    Parts,
    Ready,
    Reported,
    Strayed,
)
from elastane.train.coordinator.script_runner import hurry
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.device import Device
from elastane.train.errors import MembershipChanged, Released
from elastane.train.transport_choice import TransportKind
from elastane.train.transports import NcclLike, NoTransport
from elastane.train.worker.communicators import Connected, communicator, told_of
from elastane.train.worker.coordinator_client import CoordinatorClient, PlanHandlers
from elastane.train.worker.group import Group
from elastane.train.worker.live_join import ShadowReceiver, ShadowSender
from elastane.train.worker.membership import Change, Crew, Membership
from elastane.train.worker.state_streams import StateStreams

_ASK_S, _ANSWER_S = 1.0, 30.0
"""How often members where a loop begins ask whether a plan is entered, and for how long."""
_ABORTED_S = 10.0
"""An abort that takes longer has ended this process."""
ORPHAN_S = 5.0
"""How long the end of a job waits for a coordinator that is not there."""


class ElasticMembership(Membership):
    """A worker whose group follows the plans of a coordinator."""

    def __init__(
        self, client: CoordinatorClient, token: str, host: str = "127.0.0.1", device: Device | None = None
    ) -> None:
        super().__init__(device or Device())
        self.elastic = True
        self.client = client
        self._token = token
        self._host = host
        self._receiver = ShadowReceiver(host, token)
        self._built: dict[int, Connected] = {}
        self._connecting: dict[int, NcclLike] = {}
        self._unbuilt: dict[int, str] = {}
        """Why groups of urgent plans could not be connected."""
        self._streams = StateStreams(client.worker, token)
        self._worn: list[Connected] = []
        self._lock = threading.Lock()
        self._complete = False
        self._acknowledged = 0
        self._members: tuple[str, ...] = ()
        self._said_parts = 0
        self._cancelled = 0
        client.start(PlanHandlers(self._prepare, self._cancel, self._abort))

    # Called by the client's thread.

    def _prepare(self, plan: Plan) -> None:
        """Connect the next group while training goes on."""
        self.client.wake()
        if plan.rank_of(self.client.worker) is not None:
            threading.Thread(target=self._build, args=(plan,), name="group-builder", daemon=True).start()

    def _build(self, plan: Plan) -> None:
        """In a thread of its own: connecting to a member that has just died takes until a timeout."""
        rank = plan.rank_of(self.client.worker)
        assert rank is not None
        group, communicator = None, None
        problem = lacking = ""
        try:
            if len(plan.members) > 1:
                group = Group(rank, len(plan.members), self.client.exchange(plan.generation), host=self._host)
            if plan.transport is TransportKind.NCCL_LIKE and len(plan.members) > 1:
                communicator = self._communicator(plan, rank)
        except MembershipChanged as error:
            problem = str(error)
        except NoTransport as reason:
            lacking = str(reason)
        made = Connected(group, communicator)
        with self._lock:
            over = self.client.aborted >= plan.generation
            if not problem and not over:
                self._built[plan.generation] = made
            elif not over:
                self._unbuilt = {plan.generation: problem}
        if problem or over:
            made.kill()
            made.retire()
        if not over and (problem or not plan.urgent):
            if not problem:
                self.client.send(Built(plan.generation, lacking))
            elif plan.urgent:
                self.client.send(Apart(plan.generation, problem))
            else:
                self.client.send(Lagging(plan.generation, problem))
        self.client.wake()

    def _communicator(self, plan: Plan, rank: int) -> NcclLike:
        """Connected, while another transport is in use; raises NoTransport where there can be none."""
        made = communicator(
            self.device, self.client.named_exchange(plan.generation, rank), rank, len(plan.members)
        )
        with self._lock:
            self._connecting[plan.generation] = made
        try:
            if self.client.aborted >= plan.generation:
                made.abort()
            made.connect()
        finally:
            with self._lock:
                self._connecting.pop(plan.generation, None)
        return made

    def _cancel(self, generation: int) -> None:
        self._drop_built(lambda g: g == generation)
        self._cancelled = max(self._cancelled, generation)
        self.client.wake()
        if not self.client.member:
            self._receiver.interrupt()

    def _abort(self, generation: int) -> None:
        """Everything up to this generation is over: end collectives at once."""
        self._drop_built(lambda g: g <= generation)
        transport = self.transport
        if transport is not None and self.generation <= generation:
            transport.abort()
        if not self.client.member:
            self._receiver.interrupt()

    def _drop_built(self, over: Callable[[int], bool]) -> None:
        with self._lock:
            gone = [g for g in self._built if over(g)]
            dropped = [self._built.pop(g) for g in gone]
            connecting = [made for g, made in self._connecting.items() if over(g)]
        for each in connecting:
            each.abort()
        for made in dropped:
            made.kill()
            made.retire()

    # Called by the training thread.

    def join(self, crew: Crew) -> None:
        """Wait to be planned in, and become a replica of those who train."""
        client = self.client
        signature = {**crew.signature(), "shadow": crew.replication is not None}
        hurry()
        stream, device = self._receiver.address, told_of(self.device, self._host)
        client.doing(Activity.OUTSIDE)
        client.ready(Ready(signature, stream, device, crew.stored_generation()))
        while not self._enter_first(crew):
            pass

    def _enter_first(self, crew: Crew) -> bool:
        client = self.client
        plan = client.await_plan(lambda p: client.worker in p.members, self._acknowledged, self._not_in)
        self._complete = False
        began = time.perf_counter()
        try:
            if plan.urgent:
                self._await_built(plan.generation)
                if plan.source == client.worker and plan.kind is Kind.START:
                    crew.restore(plan.generation)
                self._adopt(plan)
                self._share(crew, plan)
            elif plan.shadow:
                replication = crew.replication
                assert replication is not None  # said in the signature
                replication.follow(self._receiver, lambda: client.send(CaughtUp(plan.generation)))
                self._complete = True
                self._await_built(plan.generation)
                self._adopt(plan)
            else:
                self._await_built(plan.generation)
                if plan.at_loop:
                    client.wait_until(lambda: self._decided(plan.generation))
                self._adopt(plan)
                self._share(crew, plan)
        except MembershipChanged as error:
            if self._complete:
                self.recover(crew, str(error))
                return True
            self._not_in(self._not_entered(plan, str(error)))
            return False
        before = 0 if plan.kind is Kind.START else len(plan.members) - len(plan.joiners) + len(plan.leavers)
        self._entered(crew, plan, before, {"join": time.perf_counter() - began})
        return True

    def _not_entered(self, plan: Plan, why: str) -> int:
        """A plan came to nothing for this worker, by cancellation, abortion, or a failure only it knows of."""
        self._retire_group()
        client = self.client
        if (
            client.aborted < plan.generation
            and client.plan is not None
            and client.plan.generation == plan.generation
        ):
            if plan.urgent:
                return plan.generation
            client.send(Lagging(plan.generation, why))
            client.wait_until(lambda: self._over(plan.generation))
        return client.aborted

    def _not_in(self, ended: int, applied: int | None = None, why: str = "") -> None:
        """Acknowledge the end of a generation, once; ``applied`` if this worker holds a complete state."""
        if ended > self._acknowledged:
            self._acknowledged = ended
            self.client.send(Failed(ended, applied, why))

    def _await_built(self, generation: int) -> None:
        client = self.client
        client.wait_until(
            lambda: (
                generation in self._built
                or generation in self._unbuilt
                or client.aborted >= generation
                or client.plan is None
                or client.plan.generation != generation
            )
        )
        if generation not in self._built:
            raise MembershipChanged(self._unbuilt.get(generation, "the group is not wanted any more"))

    def _over(self, generation: int) -> bool:
        """Whether a plan that has not been entered never will be."""
        plan = self.client.plan
        return self.client.aborted >= generation or plan is None or plan.generation != generation

    def _decided(self, generation: int) -> bool:
        """Whether the coordinator has said if this generation is entered in the loop that begins."""
        return self.client.go == generation or self._over(generation)

    def _decided_by(self, generation: int, moment_s: float) -> bool:
        return self._decided(generation) or time.monotonic() >= moment_s

    def _adopt(self, plan: Plan) -> None:
        with self._lock:
            if plan.generation not in self._built:
                raise MembershipChanged("the group is over")
            made = self._built.pop(plan.generation)
        self._retire_group(worn=True)
        rank = plan.rank_of(self.client.worker)
        assert rank is not None
        if made.communicator is None:
            self.group = made.group
        else:
            self._use(made.group, made.communicator)
        self.generation, self.rank = plan.generation, rank
        self.world, self.nodes, self._members = len(plan.members), plan.nodes, plan.members
        self.most, self._said_parts = plan.most, 0
        if self.client.aborted >= plan.generation:  # it was said while nobody held it
            made.kill()
        if made.communicator is not None:
            made.communicator.enter()

    def _retire_group(self, worn: bool = False) -> None:
        """Let go of the present group; ``worn``: others may still be finishing their last collective in it."""
        transport = self.transport
        over = Connected(self.group, transport if isinstance(transport, NcclLike) else None)
        self._use(None, None)
        if worn:
            self._worn.append(over)
            return
        over.kill()
        if over.communicator is not None:  # only then may others begin on this device
            over.communicator.wait_aborted(_ABORTED_S)
        over.retire()

    def _share(self, crew: Crew, plan: Plan) -> None:
        if plan.source is not None and self.group is not None:
            crew.state.share(self.group, plan.members.index(plan.source))
        self._complete = True

    def _entered(self, crew: Crew, plan: Plan, before: int, breakdown: dict[str, float]) -> None:
        self.client.entered(Entered(plan.generation, crew.step))
        crew.changed(Change(plan.kind, plan.generation, before, self.world, plan.shadow, breakdown=breakdown))

    def name_of(self, rank: int) -> str:
        """The worker with this rank."""
        return self._members[rank]

    def next_generation(self) -> int:
        """Leader: the generation that everybody is prepared for."""
        plan = self.client.plan
        ready = plan is not None and not plan.at_loop and self.client.go == plan.generation
        return plan.generation if plan is not None and ready else 0

    def next_at_loop(self) -> int:
        """Leader: the generation that everybody is prepared for, and that waits for a loop to begin."""
        plan = self.client.plan
        return plan.generation if plan is not None and self.client.prepared == plan.generation else 0

    def strayed(self) -> None:
        """Newcomers shall come where a loop begins."""
        self.client.send(Strayed())

    def stop_cause(self) -> str | None:
        """Why the coordinator wants this worker to leave."""
        return self.client.stop_cause

    def ask_to_stop(self, why: str) -> None:
        """Others will go on without this worker."""
        self.client.send(Leave(why))

    def doing(self, what: str, step: int) -> None:
        """For the signs of life."""
        self.client.doing(Activity(what), step)

    def parts(self, samples: int) -> None:
        """Tell the coordinator before it happens: a process that the kernel ends has no last words."""
        if samples > self._said_parts or not samples:
            self._said_parts = samples
            self.client.send(Parts(samples))

    def boundary(self, crew: Crew) -> None:
        """Send newcomers the next piece of state; let go of groups nobody uses."""
        for generation, why in self._streams.boundary(self.client.plan, crew):
            self.client.send(Lagging(generation, why))
        if self._worn and self.client.settled >= self.generation:
            worn, self._worn = self._worn, []
            for over in worn:
                over.retire()

    def refuse_streams(self, why: str) -> None:
        """Newcomers that follow join by a copy instead; told to the coordinator at the boundary."""
        self._streams.refuse(why)

    def yield_gradients(self) -> None:
        """Senders may still be reading the reduced gradient, which is about to be overwritten."""
        self._streams.yield_gradients()

    def yield_parameters(self) -> None:
        """Senders may still be reading parameters, which the optimizer is about to change."""
        self._streams.yield_parameters()

    def applied(self, step: int, gradient: Any, groups: Callable[[], list[dict[str, Any]]]) -> None:
        """Newcomers that follow get the gradient."""
        self._streams.applied(step, gradient, groups)

    def switch(self, generation: int, crew: Crew) -> None:
        """Enter a prepared generation, or leave if it is without this worker."""
        began = time.perf_counter()
        client = self.client
        if self._cancelled >= generation:
            return
        # Others have built what they agreed on; a worker that only leaves may not even have heard of it yet.
        client.wait_until(
            lambda: (
                client.aborted >= generation
                or self._cancelled >= generation
                or (client.plan is not None and client.plan.generation >= generation)
            )
        )
        plan = client.plan
        if plan is None or plan.generation != generation or client.aborted >= generation:
            return  # it broke meanwhile: the next collective will say so
        try:
            if plan.at_loop and not self._let_in(generation):
                return
        except MembershipChanged as error:
            self.recover(crew, str(error))
            return
        senders = self._streams.finish(crew.step)
        if self.client.worker in plan.leavers:
            self._leave(senders, generation)
        before = self.world
        told = time.perf_counter()
        try:
            self._adopt(plan)
            adopted = time.perf_counter()
            self._share(crew, plan)
        except MembershipChanged as error:
            self.recover(crew, str(error))
            return
        shared = time.perf_counter()
        breakdown = {"handover": told - began, "group": adopted - told, "state": shared - adopted}
        self._entered(crew, plan, before, breakdown)

    def _let_in(self, generation: int) -> bool:
        """Whether the coordinator, which may have given the plan up until now, says that it is entered.

        Everybody asks, and again: whatever was lost on the way is made up for.

        Raises:
            MembershipChanged: it says nothing for so long that the generation is better ended.
        """
        until_s = time.monotonic() + _ANSWER_S
        with contextlib.suppress(Released):  # all members stop at the same step, and not here
            while not self._decided(generation):
                if time.monotonic() > until_s:
                    raise MembershipChanged(f"nobody said whether generation {generation} is entered")
                self.client.send(LoopBegins(generation))
                again_s = time.monotonic() + _ASK_S
                self.client.wait_until(partial(self._decided_by, generation, again_s))
        return self.client.go == generation

    def _leave(self, senders: list[ShadowSender], generation: int) -> None:
        for sender in senders:
            sender.flush()
        self.client.send(Left(generation))
        self.client.doing(Activity.OUTSIDE)
        # The others may still be finishing a collective with us: closing our sockets would break it.
        self.client.wait_until(lambda: self.client.settled >= generation or self.client.aborted >= generation)
        raise Released("the job goes on with other workers")

    def recover(self, crew: Crew, why: str, waited_s: float = 0.0) -> None:
        """The group broke: wait for the plan without the dead, and go on."""
        began = time.perf_counter()
        client, before = self.client, self.world
        ended = max(self.generation, client.aborted)
        self._streams.cancel()
        while True:
            self._retire_group()
            self.group, self.world = None, 1
            client.doing(Activity.OUTSIDE)
            client.applied(crew.tick)
            self._not_in(ended, crew.tick, why)
            plan = client.await_plan(
                lambda p: p.urgent and client.worker in p.members,
                self._acknowledged,
                lambda g: self._not_in(g, crew.tick),
            )
            told = time.perf_counter()
            try:
                self._await_built(plan.generation)
                self._adopt(plan)
                built = time.perf_counter()
                crew.rewind()
                self._share(crew, plan)
            except MembershipChanged as error:
                ended, why = max(plan.generation, client.aborted), str(error)
                continue
            breakdown = {
                "detect": waited_s,
                "plan": told - began,
                "group": built - told,
                "state": time.perf_counter() - built,
            }
            self._entered(crew, plan, before, breakdown)
            return

    def report(self, event: Mapping[str, Any]) -> None:
        """To the coordinator, who keeps the journal."""
        self.client.send(Reported(dict(event)))

    def finish(self, step: int) -> None:
        """Wait until everybody has applied the last step: closing our sockets earlier might break it for them."""
        client = self.client
        client.done(Done(step))
        with contextlib.suppress(Released):
            client.wait_until(lambda: client.over, ORPHAN_S)

    def goodbye(self, cause: str) -> None:
        """Tell the coordinator what ends this process."""
        self.client.goodbye(cause)
