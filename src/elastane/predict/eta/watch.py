"""From the records of a log to the ETA engine: sessions, spans, validations, changes of workers or batch.

Tolerates what logs are like: duplicate and out-of-order lines, several ranks writing the same step, steps that go back
after a restore, clocks that jump.
"""

from __future__ import annotations

from collections import deque
from statistics import median

from elastane.predict.eta.engine import EtaEngine
from elastane.predict.eta.lines import Record
from elastane.predict.eta.values import Doing, Goal, Span
from elastane.predict.interval import Interval, Unknown

_SESSIONS = ("started",)
_CHANGES = ("resized", "rebatched")


class LogWatch:
    """Feeds an engine; ``total_steps`` and ``epochs`` of the user go before what the log says."""

    def __init__(self, total_steps: int | None = None, epochs: float | None = None) -> None:
        self.engine: EtaEngine | None = None
        self.step = 0
        self.epoch: float | None = None
        self._total_steps, self._epochs = total_steps, epochs
        self._asked = total_steps, epochs
        self._last: tuple[float, float] | None = None
        self._setting: tuple[int, int] | None = None
        self._by_fraction = False
        self._validated = False
        self._blocked_s = 0.0
        self._rates: deque[float] = deque(maxlen=200)
        self._early: list[tuple[int, float]] = []
        self._timed = False
        self._outcome = ""

    def observe(self, record: Record) -> None:
        """Take in one record."""
        self._learn_total(record)
        self._timed = self._timed or record.at_s is not None
        if record.kind in _SESSIONS:
            self._begin_session()
        elif record.kind in _CHANGES:
            self._rebase()
        if record.validation:
            self._validated = True
        if record.blocking_s:
            self._blocked_s += record.blocking_s
        if record.outcome:
            self._outcome = record.outcome
        if record.step is not None and record.at_s is not None and record.kind in ("", "stepped"):
            self._progress(record)

    def remaining(self) -> Interval | Unknown:
        """Seconds left as of the last record."""
        if self._outcome:
            return Interval.exactly(0.0)
        if self.engine is None:
            if not self._timed:
                return Unknown("the log has no times; follow it while it is written (--follow)")
            if self._last is None:
                return Unknown("the log has no steps yet")
            return Unknown("this session has made only one report")
        self.engine.goal = self._goal()
        return self.engine.remaining()

    @property
    def ended(self) -> bool:
        """Whether the log says that the training is over."""
        return bool(self._outcome)

    @property
    def done(self) -> float | None:
        """Share of the whole, if there is a whole."""
        goal = self._goal()
        if self._last is None or goal.total is None:
            return None
        return min(self._last[1] / goal.total, 1.0)

    def _learn_total(self, record: Record) -> None:
        if record.total_steps and self._asked[0] is None:
            self._total_steps = record.total_steps
        if record.epochs and self._asked[1] is None:
            self._epochs = record.epochs
        if record.epoch is not None:
            self.epoch = record.epoch
            if record.step and record.epoch > 0 and not record.kind:
                self._early.append((record.step, record.epoch))
                del self._early[:-50]

    def _goal(self) -> Goal:
        if self._by_fraction:
            return Goal(total=1.0)
        if self._total_steps:
            return Goal(total=float(self._total_steps))
        if self._epochs and self._early:
            # HF writes fractional epochs; Lightning whole ones, of which only the begin is certain.
            step, epoch = self._early[-1]
            return Goal(total=self._epochs * step / epoch) if epoch % 1.0 else Goal(total=None)
        return Goal(total=None)

    def _begin_session(self) -> None:
        self._last, self._setting = None, None
        self.engine = None

    def _rebase(self) -> None:
        if self.engine is not None:
            self.engine.rebase()
        self._rates.clear()

    def _progress(self, record: Record) -> None:
        assert record.step is not None
        assert record.at_s is not None
        if record.fraction is not None:
            self._by_fraction = True
        elif self._by_fraction:
            return
        done = record.fraction if record.fraction is not None else float(record.step)
        if record.setting is not None and record.setting != self._setting:
            if self._setting is not None:
                self._rebase()
            self._setting = record.setting
        if self._last is None or self.engine is None:
            if self._last is not None and done <= self._last[1]:
                return
            self._start(record.at_s, done)
        elif done > self._last[1] and record.at_s >= self._last[0]:
            self._advance(record.at_s, done, max(record.step - self.step, 1))
        elif (done > self._last[1]) != (record.at_s > self._last[0]):
            self._jump(record.at_s, done)
        else:
            return  # a line that was there before, or comes late
        self.step = record.step

    def _start(self, at_s: float, done: float) -> None:
        self.engine = EtaEngine(self._goal())
        self.engine.resume(done)
        self._last = at_s, done

    def _jump(self, at_s: float, done: float) -> None:
        """Steps are taken again after a restore, or the clock was set back: no span, but a new beginning of one."""
        assert self.engine is not None
        self.engine.done = done
        self._last = at_s, done

    def _advance(self, at_s: float, done: float, steps: int) -> None:
        """One span of training, without the validation or the checkpoint that fell into it."""
        assert self.engine is not None
        assert self._last is not None
        began, before = self._last
        work, length = done - before, at_s - began
        usual = median(self._rates) * work if self._rates else None
        ended = at_s
        if self._validated and usual is not None and length > usual:
            ended = began + usual
        elif self._blocked_s:
            ended = at_s - min(self._blocked_s, 0.9 * length)
        self.engine.observe(Span(Doing.TRAIN, began, ended, work, steps))
        if ended < at_s:
            kind = Doing.VALIDATION if self._validated else Doing.CHECKPOINT
            self.engine.observe(Span(kind, ended, at_s))
        elif work > 0 and not self._validated:
            self._rates.append(length / work)
        self._validated, self._blocked_s = False, 0.0
        self._last = at_s, done
