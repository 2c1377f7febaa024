"""``StepTimes`` tells how long the device worked on each unit of a step, and on its reduction, without waiting for it.

On an accelerator the host's clock would measure how long it takes to hand out work.  Events are recorded in the
stream instead, and read when the step has been committed: by then they have happened.  What has to be said *before*
that (the worker's row of the table) is of the step before.  On a CPU all of it is the clock, and of this step.
"""

from __future__ import annotations

from elastane.train.device import Device, Mark


class StepTimes:
    """The marks of the present step, and the seconds of the one before."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._unit = self._reduction = device.mark()
        self._units: list[tuple[Mark, Mark]] = []
        self._before: list[float] = []

    def begin(self) -> None:
        """A step begins: it has no times yet."""
        self._units = []

    def unit_begins(self) -> None:
        """The script computes a unit."""
        self._unit = self._device.mark()

    def unit_ends(self) -> None:
        """Its gradients are taken."""
        self._units.append((self._unit, self._device.mark()))

    def reduction_begins(self) -> None:
        """What follows is waiting for others."""
        self._reduction = self._device.mark()

    def said(self) -> list[float]:
        """Seconds per unit that may be told while the device is still at work."""
        return self.passes() if self._device.is_cpu else self._before

    def passes(self) -> list[float]:
        """Seconds per unit of this step; on an accelerator only once it is committed."""
        return [end.since(start) for start, end in self._units]

    def commit(self, moment: Mark | None) -> tuple[list[float], float]:
        """Seconds per unit, and of the reduction that ended at ``moment`` (now, on a CPU)."""
        self._before = self.passes()
        return self._before, (moment or self._device.mark()).since(self._reduction)
