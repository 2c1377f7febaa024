"""``Whereabouts`` compares, in the table of every step, where members are in their scripts.

A script may limit an epoch by a counter of its own, which begins at 0 in a worker that comes in the middle.  It is in
another loop than the others then, and would train on with them all the same: data and parameters go on alike.  So no
step is made of a reduction whose members were at different places.  Newcomers that are elsewhere end; the others
recover as from any loss.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import Protocol

import torch

from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import Column, Table

_EXACT = 2**23
"""Whole numbers in the table stay below this, where they are exact."""


class Place(Protocol):
    """What a loader knows of the place of its script."""

    @property
    def place(self) -> str:
        """Which loop over which pass of the data it is in, and how far that is."""
        ...

    entered_inside: bool
    """Whether the script came into the present loop in its middle."""


class Whereabouts:
    """One worker's part in the comparison."""

    def __init__(self, leave_by: str) -> None:
        """``leave_by`` is how a script should leave a loop over a loader."""
        self._leave_by = leave_by
        self._new = False

    def say(self, row: list[float], here: Place) -> None:
        """Into this worker's row of the table."""
        self._new = self._new or here.entered_inside
        row[Column.PLACE] = zlib.crc32(here.place.encode()) % _EXACT
        row[Column.NEW] = float(self._new)

    def compare(self, table: Table, membership: Membership, here: Place) -> None:
        """Raises TrainError where this worker cannot go on, and MembershipChanged where others cannot."""
        places = table.all(Column.PLACE)
        if len(set(places)) == 1:
            self._new = here.entered_inside  # it has been in step with the others since it came into this loop
            return
        _meet(membership)
        old = [place for place, new in zip(places, table.all(Column.NEW), strict=True) if not new]
        if len(set(old)) > 1:
            raise TrainError(
                "the workers are in different loops over job.loader(...), so no further step was made; leave such "
                f"loops at the same step on all workers: {self._leave_by}"
            )
        membership.strayed()
        if places[membership.rank] != (old or places)[0]:
            raise TrainError(
                "this worker came into the middle of a loop over job.loader(...), and left it at another step than the "
                f"others; a counter of the script's own begins at 0 here, so write: {self._leave_by}"
            )
        raise MembershipChanged("a newcomer was in another loop of the script, by a counter of its own")


def _meet(membership: Membership) -> None:
    """Nobody leaves before all have read the table, which the end of a member might keep from them."""
    if membership.group is not None:
        with contextlib.suppress(MembershipChanged):
            membership.group.all_reduce(torch.zeros(1))
