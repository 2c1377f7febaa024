"""Collectives that the script asks for (``job.evaluate``, ``job.all_reduce``), repeated until one succeeds.

A result that is there already is not computed again: a worker that is behind, or runs its script again up to its
position, gets the one there was.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from elastane.train.errors import MembershipChanged
from elastane.train.worker.membership import Crew, Membership
from elastane.train.worker.position import Position
from elastane.train.worker.skipped_units import SkippedParts


def _nothing() -> None:
    """Most collectives need no preparation."""


class ScriptCollectives:
    """Runs such collectives for one worker; ``meet`` lets workers that skipped their parts of a step catch up."""

    def __init__(
        self,
        membership: Membership,
        position: Position,
        skips: SkippedParts,
        crew: Crew,
        meet: Callable[[], None],
        clear: Callable[[], None] = _nothing,
    ) -> None:
        """``clear`` ends what is under way over the same group."""
        self._membership = membership
        self._position = position
        self._skips = skips
        self._crew = crew
        self._meet = meet
        self._clear = clear

    def until(
        self, there: Callable[[], bool], attempt: Callable[[], None], prepare: Callable[[], None] = _nothing
    ) -> bool:
        """Attempt a collective until its result is there; False if not all workers come by this place.

        ``prepare`` runs before each attempt, outside of what a broken group may interrupt.
        """
        m, position = self._membership, self._position
        if not position.inside:
            self._meet()
        while not there():
            if position.inside and self._skips.impossible():
                return False
            position.arrive()
            m.doing("evaluating", position.step)
            prepare()
            problem, began = "", time.perf_counter()
            try:
                self._clear()
                attempt()
            except MembershipChanged as error:
                problem = str(error)
            # Outside the handler, whose traceback would keep the broken group alive.
            if not problem:
                position.met()
                m.doing("outside", position.step)
            else:
                m.recover(self._crew, problem, time.perf_counter() - began)
                position.fall_behind(there())
        return True
