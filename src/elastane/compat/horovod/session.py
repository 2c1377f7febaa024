"""This worker's place among the others: who it is, the group it talks in, and the way into the next group.

``Session`` is the ``Crew`` that membership serves.  It moves no training state (its ``TrainingState`` is empty):
``elastic.State.sync`` does, as Horovod users know it.  A worker becomes a member with the first call that needs to
know the others, ``rank()`` and ``size()`` included; a newcomer that asks nothing before ``elastic.run`` builds its
model while the others train, one that asks early lets them wait meanwhile, as Horovod does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

import torch

import elastane
from elastane.compat.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from elastane.compat.horovod.record import Record
from elastane.train.coordinator import script_runner
from elastane.train.errors import MembershipChanged, Released
from elastane.train.worker.elastic_membership import ElasticMembership
from elastane.train.worker.group import Group
from elastane.train.worker.membership import Change, Membership
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.state_codec import Packed


class Session:
    """One worker between ``init`` and ``shutdown``."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.state = TrainingState()
        self.record = Record.of(membership)
        self.step = 0
        """Optimizer steps of the training, by whomever."""
        self.tick = 0
        """Nobody is ahead as far as membership is concerned: who has committed most is found out in ``sync``."""
        self.local = (0, 1)
        self.joined = False
        self._over = False
        self._agreed = 0
        self._seen_step = 0
        self._changes: list[Change] = []
        script_runner.tell_cause.append(self._failed)

    # What membership asks (``Crew``).

    @property
    def replication(self) -> None:
        """None: no optimizer is named whose steps could be repeated, so newcomers take over a copy."""
        return None

    def signature(self) -> Mapping[str, Any]:
        """What must be equal between workers."""
        return {
            "elastane": elastane.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "settings": {"interface": "horovod"},
        }

    def restore(self, generation: int = 0) -> None:
        """Nothing: the first ``sync`` looks for a checkpoint, when the state it belongs to is known."""

    def stored_generation(self) -> int:
        """The latest generation that has left anything where checkpoints lie."""
        return self.record.stored()

    def rewind(self) -> None:
        """Nothing: a script's own commits say what its state is."""

    def changed(self, change: Change) -> None:
        """Other members; told when they have their state too, which is part of the pause."""
        self._changes.append(change)

    # Being a member.

    def join(self) -> Membership:
        """Be a member from here on."""
        if not self.joined:
            self.joined = True
            self.membership.join(self)
            self.settle()
            self.record.begin(self.membership)
            self.resumed(0.0)
        return self.membership

    def resume(self, step: int) -> None:
        """Go on from the step of the state that was taken over."""
        self.step = step

    def settle(self) -> None:
        """Find the place on this machine, after members have changed."""
        m = self.membership
        if m.nodes == 1:
            self.local = (m.rank, m.world)
            return
        mine = torch.tensor([_machine()])
        everybody = torch.zeros(m.world, dtype=torch.int64)
        self.call(lambda group: group.all_gather(everybody, mine))
        names = everybody.tolist()
        self.local = (names[: m.rank].count(names[m.rank]), names.count(names[m.rank]))

    def resumed(self, sync_s: float) -> None:
        """Training goes on, ``sync_s`` after members had changed."""
        changes, self._changes = self._changes, []
        for change in changes:
            change.breakdown["sync"] = sync_s
            self.record.changed(change, self.step, self.membership)

    def call(self, work: Callable[[Group], None]) -> None:
        """Do something together with the others; nothing if there are none."""
        group = self.join().group
        if group is None:
            return
        problem = ""
        try:
            work(group)
        except MembershipChanged as error:
            problem = str(error)
        # Raised outside the handler, whose traceback would keep the broken group alive.
        if problem:
            raise HorovodInternalError(problem)

    def stepped(self, compute_s: float, sync_s: float) -> None:
        """An optimizer step was made."""
        self.step += 1
        if self.membership.rank == 0:
            self.record.stepped(compute_s, sync_s)

    def agree(self, picture: Callable[[], Packed | None]) -> None:
        """Between two steps, on all workers alike: go on, or raise what everybody raises here.

        One tiny sum carries the generation that rank 0 may enter, and whether anybody was asked to stop.
        """
        m = self.join()
        if self.step == self._seen_step:
            self.stepped(0.0, 0.0)  # a script that averages by itself: boundaries are all that is seen of it
        self._seen_step = self.step
        m.doing("outside", self.step)
        m.boundary(self)
        leader = m.rank == 0
        facts = torch.tensor([m.next_generation() if leader else 0, int(m.stop_cause() is not None)])
        self.call(lambda group: group.all_reduce(facts))
        self._agreed, stops = facts.tolist()
        if leader:
            self.record.boundary(self.step, m, picture, last=bool(stops))
        if stops:
            self._over = True
            raise Released(m.stop_cause() or "asked to stop")
        if self._agreed:
            raise HostsUpdatedInterrupt(f"the members of generation {self._agreed} are ready")

    def switch(self) -> None:
        """Enter the generation that was agreed on."""
        self._await_plan()
        self._leaving(lambda: self.membership.switch(self._agreed, self))

    def _await_plan(self) -> None:
        """Rank 0 was told to go ahead; this worker's copy of the plan may still be on its way."""
        m, wanted = self.membership, self._agreed
        if isinstance(m, ElasticMembership):
            client = m.client
            client.wait_until(
                lambda: (
                    client.aborted >= wanted or (client.plan is not None and client.plan.generation >= wanted)
                )
            )

    def recover(self, why: str) -> None:
        """The group broke: go on with those who are left."""
        self._leaving(lambda: self.membership.recover(self, why))

    def _leaving(self, change: Callable[[], None]) -> None:
        try:
            change()
        except Released:
            self._over = True
            raise

    def ask_to_stop(self, number: int, _frame: Any) -> None:
        """A first signal ends training at the next commit, a second one at once."""
        signal.signal(number, signal.SIG_DFL)
        self.membership.ask_to_stop(signal.Signals(number).name)

    def catch_signals(self) -> None:
        """From now on there are commits to stop at."""
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, self.ask_to_stop)

    def end(self) -> None:
        """The script needs the others no more."""
        if self.joined and not self._over:
            self._over = True
            self.record.end(self.step, self.membership)
            self.membership.finish(self.step)

    def _failed(self, cause: str) -> None:
        self._over = True
        self.membership.goodbye(cause)


def _machine() -> int:
    """A number for this machine's name; equal names have equal numbers."""
    name = os.environ.get("ELASTANE_NODE") or socket.gethostname()
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
