"""A broken communicator has ended before anything else begins on its device."""

from __future__ import annotations

from typing import Any

import pytest

from elastane.train.transports import NcclLike
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
