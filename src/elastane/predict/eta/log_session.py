"""Feeds the records of a log to the ETA engine: sessions, spans, validations, changes of workers or batch.

It tolerates duplicate and out-of-order lines, several ranks writing the same step, steps that go back after a restore,
and clocks that jump.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from statistics import median

from elastane.predict.eta.engine import EtaEngine
from elastane.predict.eta.length import LogLength
from elastane.predict.eta.log_parsers import Record
from elastane.predict.eta.stop_rule import EarlyStop
from elastane.predict.eta.types import Doing, Goal, Span
from elastane.predict.interval import Interval, Unknown

_SESSIONS = ("started",)
_CHANGES = ("resized", "rebatched")
_OVERDUE = 2.0
"""Usual gaps between two reports after which the next one is overdue."""


class LogWatch:
    """Feeds an engine from a log; ``total_steps`` and ``epochs`` of the user win over those of the log.

    ``stop`` is the rule that may end the training early, by the values that its validations give for ``metric``.
    """

    def __init__(
        self,
        total_steps: int | None = None,
        epochs: float | None = None,
        stop: EarlyStop | None = None,
        metric: str | None = None,
    ) -> None:
        self.engine: EtaEngine | None = None
        self.step = 0
        self.metrics: set[str] = set()
        self._length = LogLength(total_steps, epochs)
        self._stop, self._metric = stop, metric
        self._values: dict[float, float] = {}
        self._last: tuple[float, float] | None = None
        self._back: tuple[float, float] | None = None
        self._setting: tuple[int, int] | None = None
        self._by_fraction = False
        self._validated: float | None = None
        """Seconds of a validation since the last report, 0 if the log does not say, None without one."""
        self._blocked_s = 0.0
        self._rates: deque[float] = deque(maxlen=200)
        self._gap_s = 0.0
        self._timed = False
        self._outcome = ""

    def observe(self, record: Record) -> None:
        """Takes in one record; those of ranks other than 0 are ignored."""
        if record.rank:
            return  # the others only repeat what the first says
        self._length.learn(record)
        self._timed = self._timed or record.at_s is not None
        if not self._timed and record.step is not None:
            self.step = record.step
        if record.kind in _SESSIONS:
            self._begin_session()
        elif record.kind in _CHANGES:
            self._rebase()
        if record.validation:
            self._validate(record)
        if record.blocking_s:
            self._blocked_s += record.blocking_s
        if record.outcome:
            self._outcome = record.outcome
        if record.step is not None and record.at_s is not None and record.kind in ("", "stepped"):
            self._progress(record)

    def remaining(self, now_s: float | None = None) -> Interval | Unknown:
        """Returns the seconds left as of the last record, or as of now while the next one is not overdue."""
        left = self._remaining()
        if now_s is None or self._last is None or isinstance(left, Unknown):
            return left
        late_s = now_s - self._last[0]
        if not 0.0 < late_s <= _OVERDUE * self._gap_s:
            return left  # it stands still, or its times are of another clock
        return Interval(*(max(each - late_s, 0.0) for each in (left.low, left.middle, left.high)))

    def _remaining(self) -> Interval | Unknown:
        if self._outcome:
            return Interval.exactly(0.0)
        if self.engine is None:
            if self.step and not self._timed:
                return Unknown("the log has no times; follow it while it is written (--follow)")
            if self._last is None:
                return Unknown("the log has no steps yet")
            return Unknown("this session has made only one report")
        if self._metric is not None and self._stop is not None and self.metrics and not self._values:
            known = ", ".join(sorted(self.metrics))
            return Unknown(f"validations do not tell {self._metric!r}, by which it may stop; they tell {known}")
        self.engine.goal = self._goal()
        return self.engine.remaining()

    @property
    def workers(self) -> int | None:
        """The number of workers in the latest report; None if it does not say."""
        return None if self._setting is None else self._setting[0]

    @property
    def ended(self) -> bool:
        """Whether the log says that the training is over."""
        return bool(self._outcome)

    @property
    def done(self) -> float | None:
        """The fraction of the training that is done; None if its length is unknown."""
        goal = self._goal()
        if self._last is None or goal.total is None:
            return None
        return min(self._last[1] / goal.total, 1.0)

    def _goal(self) -> Goal:
        return Goal(total=1.0 if self._by_fraction else self._length.steps, stop=self._stop)

    def _begin_session(self) -> None:
        self._last = self._back = self._setting = None
        self._rates.clear()
        self.engine, self._outcome = None, ""

    def _rebase(self) -> None:
        if self.engine is not None:
            self.engine.rebase()
        self._rates.clear()

    def _validate(self, record: Record) -> None:
        """Takes in a validation; its time is later taken out of the span that it belongs to."""
        self._validated = record.validation_s or 0.0
        self.metrics |= record.values.keys()
        value = _chosen(record.values, self._metric)
        at = self._last[1] if self._by_fraction and self._last is not None else record.step
        if value is not None and at is not None:
            self._values[float(at)] = value

    def _progress(self, record: Record) -> None:
        assert record.step is not None
        assert record.at_s is not None
        if record.fraction is not None and not self._by_fraction:
            self._by_fraction, self._last, self.engine = True, None, None
        elif record.fraction is None and self._by_fraction:
            return
        done = record.fraction if record.fraction is not None else float(record.step)
        if record.setting is not None and record.setting != self._setting:
            if self._setting is not None:
                self._rebase()
            self._setting = record.setting
        if self._moved(record.at_s, done, record.step):
            self.step = record.step

    def _moved(self, at_s: float, done: float, step: int) -> bool:
        """Takes in a report of progress; returns False if it repeats another or comes late."""
        if self._last is None or self.engine is None:
            if self._last is not None and done <= self._last[1]:
                return False
            self._start(at_s, done)
        elif self._back is not None and self._back[1] < done <= self._last[1] and at_s >= self._back[0]:
            # The second report behind the first: steps are really taken again, it was no rank that lags.
            self._return_to(*self._back)
            self._advance(at_s, done, 1)
        elif done > self._last[1] and at_s >= self._last[0]:
            self._advance(at_s, done, max(step - self.step, 1))
        elif done > self._last[1]:  # the clock was set back: no span, but a new beginning of one
            self._return_to(at_s, done)
        elif at_s > self._last[0] and done < self._last[1]:
            self._back = at_s, done
            return False
        elif at_s > self._last[0] and self._validated is not None:
            self.engine.observe(Span(Doing.VALIDATION, self._last[0], at_s))
            self._validated, self._last = None, (at_s, done)
        else:
            return False
        self._back = None
        return True

    def _start(self, at_s: float, done: float) -> None:
        self.engine = EtaEngine(self._goal())
        self.engine.values = self._values
        self.engine.resume(done)
        self._last = at_s, done

    def _return_to(self, at_s: float, done: float) -> None:
        assert self.engine is not None
        self.engine.go_to(done)
        self._last = at_s, done

    def _advance(self, at_s: float, done: float, steps: int) -> None:
        """Adds one span of training, without the validation or the checkpoint that fell into it."""
        assert self.engine is not None
        assert self._last is not None
        began, before = self._last
        self._gap_s = at_s - began
        work, length = done - before, at_s - began
        ended = at_s - min(self._aside_s(work, length), 0.9 * length)
        self.engine.observe(Span(Doing.TRAIN, began, ended, work, steps))
        if ended < at_s:
            kind = Doing.CHECKPOINT if self._validated is None else Doing.VALIDATION
            self.engine.observe(Span(kind, ended, at_s))
        elif self._validated is None:
            self._rates.append(length / work)
        self._validated, self._blocked_s = None, 0.0
        self._last = at_s, done

    def _aside_s(self, work: float, length: float) -> float:
        """Returns the seconds of a span that were not training."""
        if self._validated is None:
            return self._blocked_s
        usual = median(self._rates) * work if self._rates else length
        return self._validated or max(length - usual, 0.0)


def _chosen(values: Mapping[str, float], metric: str | None) -> float | None:
    """Returns the value of a metric, by its full name or without a prefix such as eval_; by default the loss."""
    wanted = metric or "loss"
    for name, value in values.items():
        if name == wanted or re.split("[_/ ]", name, maxsplit=1)[-1] == wanted:
            return value
    return None
