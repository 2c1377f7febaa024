"""A broken communicator has ended before anything else begins on its device; none is used that is over already."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.transports import NcclLike
from elastane.train.worker.communicators import Connected
from elastane.train.worker.elastic_membership import ElasticMembership
from elastane.train.worker.membership import Membership


class Recorded(NcclLike):
    """Notes what is asked of it, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def abort(self) -> None:
        self.asked.append("abort")

    def wait_aborted(self, timeout_s: float) -> bool:
        assert timeout_s > 0.0
        self.asked.append("wait")
        return True

    def close(self) -> None:
        self.asked.append("close")


@pytest.mark.parametrize("worn", [False, True])
def test_a_group_that_broke_is_let_go_only_after_its_abort(worn: bool) -> None:
    """A worn one is left alone: others may still be finishing their last collective in it."""
    membership: Any = object.__new__(ElasticMembership)
    Membership.__init__(membership)
    membership._worn = []
    made = Recorded()
    membership._use(None, made)
    membership._retire_group(worn=worn)
    assert made.asked == ([] if worn else ["abort", "wait", "close"])
    assert membership.transport is None


class RecordedGroup:
    """A group that notes that it was ended."""

    rank, world, killed = 0, 2, False

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize(("aborted", "ended"), [(1, False), (2, True)])
def test_a_group_whose_end_was_said_while_it_was_taken_up_is_ended(aborted: int, ended: bool) -> None:
    """Whoever hears of it has no group to end yet, and whoever takes it up must not wait in it for the others."""
    membership: Any = object.__new__(ElasticMembership)
    Membership.__init__(membership)
    group: Any = RecordedGroup()
    membership._worn, membership._lock, membership._built = [], threading.Lock(), {2: Connected(group)}
    membership.client = SimpleNamespace(worker="w1", aborted=aborted)
    membership._adopt(Plan(2, Kind.GROW, ("w1", "w2")))
    assert membership.group is group
    assert group.killed is ended
