"""The time left of a resumed run that validates, saves, stalls and shares its machine: ours and three usual ways.

A made-up job goes from epoch 20 to 50: slow first steps, 15 s of validation and 4 s of saving per epoch, rare stalls,
and in a second series five epochs in which everything takes 1.8 times as long.  Errors are signed shares of the time
really left, at seven moments of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.figures import Figures
from elastane.predict.eta import Doing, EtaEngine, Goal, Span
from elastane.predict.interval import Interval

STEPS, FIRST, LAST = 200, 20, 50
"""Steps of an epoch; the epochs of the session."""
PLACES = (0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
RUNS = 20


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known at a moment of the session, and how long it really lasts on."""

    spans: list[Span]
    left_s: float

    @property
    def done(self) -> float:
        """Steps of this session."""
        return sum(span.work for span in self.spans)

    @property
    def elapsed_s(self) -> float:
        """Of this session."""
        return self.spans[-1].ended_s - self.spans[0].began_s


def resumed_runs(figures: Figures) -> None:
    """Without and with contention."""
    for contended, limit in ((False, 5.0), (True, 12.0)):
        moments = [each for seed in range(RUNS) for each in _moments(np.random.default_rng(seed), contended)]
        kind = "with five contended epochs" if contended else "without contention"
        errors, covered = _ours(moments)
        figures.at_most(f"resumed run {kind}, mean error", _mean(errors), limit, "goal", "%")
        figures.at_most(
            f"the same, ends outside the interval, of {len(moments)}", 100 * (1 - covered), 20.0, "goal", "%"
        )
        sizes = [abs(each) for each in errors]
        figures.note(f"signed by moment: {_by_place(errors)}; size by moment: {_by_place(sizes)}")
        for name, way in WAYS.items():
            others = [way(each) / each.left_s - 1.0 for each in moments]
            figures.note(f"{name}: mean error {_mean(others):.0f} %, by moment {_by_place(others)}")


def _ours(moments: list[Moment]) -> tuple[list[float], float]:
    errors, covered = [], []
    for moment in moments:
        goal = Goal(float(STEPS * LAST), STEPS, 14.0, STEPS, 3.0)
        engine = EtaEngine(goal)
        engine.resume(float(STEPS * FIRST))
        for span in moment.spans:
            engine.observe(span)
        left = engine.remaining()
        assert isinstance(left, Interval)
        errors.append(left.middle / moment.left_s - 1.0)
        covered.append(left.covers(moment.left_s))
    return errors, float(np.mean(covered))


def _steps_left(moment: Moment) -> float:
    return STEPS * (LAST - FIRST) - moment.done


def _all_time(moment: Moment) -> float:
    return moment.elapsed_s / (STEPS * FIRST + moment.done) * _steps_left(moment)


def _session(moment: Moment) -> float:
    return moment.elapsed_s / moment.done * _steps_left(moment)


def _latest(moment: Moment) -> float:
    train = [span for span in moment.spans if span.doing is Doing.TRAIN][-30:]
    return sum(span.seconds for span in train) / len(train) * _steps_left(moment)


WAYS: dict[str, Callable[[Moment], float]] = {
    "elapsed over steps of all sessions": _all_time,
    "average of the session": _session,
    "latest 30 steps": _latest,
}


def _moments(draw: Generator, contended: bool) -> list[Moment]:
    spans = _session_of(draw, contended)
    ends = np.array([span.ended_s for span in spans])
    return [
        Moment(spans[: int(np.searchsorted(ends, place * ends[-1])) + 1], float(ends[-1] * (1.0 - place)))
        for place in PLACES
    ]


def _session_of(draw: Generator, contended: bool) -> list[Span]:
    spans: list[Span] = []
    now, slow_from = 0.0, int(draw.integers(FIRST, LAST - 5)) if contended else LAST
    for epoch in range(FIRST, LAST):
        slow = 1.8 if slow_from <= epoch < slow_from + 5 else 1.0
        for step in range(STEPS):
            cold = 4.0 if epoch == FIRST and step < 15 else 1.0
            seconds = 0.5 * cold * slow * draw.lognormal(0.0, 0.08) + (5.0 if draw.random() < 0.005 else 0.0)
            spans.append(Span(Doing.TRAIN, now, now + seconds, 1.0))
            now += seconds
        for kind, usual_s in ((Doing.VALIDATION, 15.0), (Doing.CHECKPOINT, 4.0)):
            seconds = usual_s * slow * draw.lognormal(0.0, 0.08)
            spans.append(Span(kind, now, now + seconds))
            now += seconds
    return spans


def _mean(errors: list[float]) -> float:
    return 100.0 * float(np.mean(np.abs(errors)))


def _by_place(errors: list[float]) -> str:
    means = np.reshape(errors, (-1, len(PLACES))).mean(axis=0)
    return " / ".join(f"{100 * each:+.0f}" for each in means)


if __name__ == "__main__":
    alone = Figures("predict-eta-running")
    resumed_runs(alone)
    alone.finish()
