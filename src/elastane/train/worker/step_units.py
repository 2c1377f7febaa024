"""``StepUnits`` is what one worker knows of a step's units: how it is cut, which one runs, which are left."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from elastane.train.data.blocks import unit_spans
from elastane.train.errors import TrainError
from elastane.train.reduce.contract import Shares
from elastane.train.worker.step_cut import Feed


class StepUnits:
    """The units of the present step; ``leave_by`` is how a script may leave a loop over a loader."""

    def __init__(self, leave_by: str) -> None:
        self.shares = Shares((), ())
        """How the present step is cut into units."""
        self.begun = -1
        """The step that the loop body computes, or has just completed."""
        self.turn = 0
        """Passes through loop bodies that this worker has begun."""
        self.unit: int | None = None
        """The unit that the script computes now."""
        self.unit_open = False
        """Whether the script is in a body and has not called any ``step()``."""
        self.last_unit: int | None = None
        """The unit that ended last, unless it has to be computed again."""
        self.stepped = False
        """Whether the last ``opt.step()`` was a real one."""
        self._pending: deque[int] = deque()
        self._feed: Feed | None = None
        self._left_inside = False
        self._leave_by = leave_by

    # The loader that the samples come from.

    @property
    def feed(self) -> Feed:
        """The loader of the present step."""
        assert self._feed is not None
        return self._feed

    def take_from(self, feed: Feed) -> None:
        """The next samples are of this loader; raises TrainError if the script had left a step half done."""
        if self._left_inside:
            raise TrainError(
                "a loop over job.loader(...) was left in the middle of a step, which had several parts; "
                f"leave it by a count of whole steps: {self._leave_by}"
            )
        self._feed = feed

    def advance(self, samples: int, *, skipped: bool = False) -> None:
        """The step is complete, and the loader goes on behind its samples."""
        if self._feed is not None:
            self._feed.advance(samples, skipped=skipped)

    # The plan of a step.

    def cut(self, shares: Shares) -> None:
        """The step is cut so; without units its loader's pass is over."""
        self.shares = shares

    def begin(self, step: int) -> None:
        """The units are those of this step."""
        self.begun = step

    def keep_last(self, finished: Collection[int]) -> None:
        """The step is computed again, but for the units that are finished."""
        self.last_unit = self.last_unit if self.last_unit in finished else None

    def hand_out(self, units: Iterable[int]) -> None:
        """These are left to compute here."""
        self._pending = deque(units)

    def hand_out_again(self, unit: int) -> None:
        """The script runs once more on a unit that is computed already."""
        self._pending.append(unit)

    @property
    def left(self) -> int:
        """How many are left to compute here, behind the present one."""
        return len(self._pending)

    # Units run and end.

    def next(self) -> int:
        """The unit to compute now, in a body that begins."""
        self.unit = unit = self._pending.popleft()
        self.unit_open = True
        self.turn += 1
        return unit

    def go_on(self) -> int:
        """The unit to compute now, in the body that runs."""
        self.unit = unit = self._pending.popleft()
        return unit

    def step_called(self) -> None:
        """The body has called ``step()`` of an optimizer."""
        self.unit_open = False

    def end(self, unit: int) -> None:
        """The body's call has ended this unit."""
        self.leave()
        self.last_unit = unit

    def pass_by(self, unit: int) -> None:
        """The body's call belongs to this unit, which had ended there before."""
        self.last_unit = unit

    def leave(self) -> None:
        """The script computes no unit any more."""
        self.unit, self.unit_open = None, False

    def answer(self, stepped: bool) -> None:
        """Keep whether a call of ``opt.step()`` was a real step."""
        self.stepped = stepped

    def clear(self) -> None:
        """Nothing is left to compute."""
        self._pending.clear()

    def abandon(self, *, inside: bool) -> None:
        """The script has left its loop without the rest of the step; ``inside`` if some of it was computed."""
        self._left_inside = inside
        self.leave()
        self.clear()

    # What others ask.

    @property
    def half_done(self) -> bool:
        """Whether some units of a step have been computed and others have not."""
        return bool(self._pending) or self.unit is not None

    @property
    def step_due(self) -> bool:
        """Whether the unit that is computed now is this worker's last one of the step."""
        return self.unit is not None and not self._pending

    def spans_ahead(self, position: int) -> list[tuple[int, int]]:
        """What this worker will fetch in this step and, if nothing changes, in the next."""
        spans = unit_spans(position, self.shares.counts)
        mine = [spans[unit] for unit in self._pending if spans[unit][1]]
        return [*mine, *((start + self.shares.total, count) for start, count in mine)]
