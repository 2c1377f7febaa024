"""The time left of runs that stop when their measure reaches a target: real validation curves of four applications.

As the target, the best value of the first 90 % of a run is taken; the run is looked at after 20, 40, 60 and 80 % of the
way there.  Told are the budget (all epochs of the run) and the target.  Errors are shares of the time really left.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figures, shared_data
from benchmarks.predict.generated import generated
from elastane.models.convergence import fit_curve, without_outliers
from elastane.models.speed import FloatArray
from elastane.predict.eta import Doing, EarlyStop, EtaEngine, Goal, Span
from elastane.predict.eta.stopping import Belief, forecast_stop
from elastane.predict.interval import Interval

RISING = {"cifar10": True, "deepspeech2": False, "imagenet": True, "yolov3": False}
"""Applications with curves long enough, and whether more is better."""
PLACES = (0.2, 0.4, 0.6, 0.8)
EPOCH_S = 60.0
MISSED = 20.0
"""Percent: the interval has to cover at least 80."""
BETTER = 0.99
BELIEFS = {
    "the budget's part alone": Belief(doubt=1.0),
    "budgets up to 1.5 times": Belief(slack=1.5),
    "budgets up to 3 times": Belief(slack=3.0),
    "one in four never reaches it": Belief(never=0.25),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A run that ends at epoch ``end`` of ``len(values)``, where it reaches ``target``."""

    name: str
    values: FloatArray
    end: int
    target: float
    rising: bool = False

    @property
    def rule(self) -> EarlyStop:
        """What ends it."""
        return EarlyStop(target=self.target, rising=self.rising)


@dataclass(frozen=True, slots=True)
class Look:
    """What three estimators say at one place of a run, as errors; Optimus may have no answer."""

    ours: float
    budget: float
    optimus: float | None
    covered: bool
    width: float
    """Of the interval, as a share of what the budget leaves."""


def time_left(figures: Figures) -> None:
    """All curves, at all places."""
    runs = real_runs()
    table = {place: [_look(run, place) for run in runs] for place in PLACES}
    figures.note(f"{len(runs)} validation curves; error of the time left in %: ours / budget / Optimus fit")
    for index, run in enumerate(runs):
        told = "   ".join(_told(table[place][index]) for place in PLACES)
        figures.note(f"{run.name:<18} ends at {run.end:>2} of {len(run.values):>3}: {told}")
    for place in PLACES:
        _judge(figures, place, table[place])
    everywhere = [look for looks in table.values() for look in looks]
    figures.at_most("at all places, ends outside the interval", _missed(everywhere), MISSED, "gate", "%")
    _sensitivity(figures, runs)
    _other_targets(figures)
    _on_generated(figures)


def real_runs(until: float = 0.9) -> list[Run]:
    """The 26 curves; their targets are the best values up to this part of each."""
    found = []
    for application, rising in RISING.items():
        files = shared_data("data", "pollux", "profiles", application).glob("validation-*.csv")
        for path in sorted(files, key=lambda each: int(each.stem.rpartition("-")[2])):
            with path.open(encoding="utf-8") as file:
                values = np.array([float(row["metric"]) for row in csv.DictReader(file)])
            early = values[: int(until * len(values))]
            end = int(np.argmax(early) if rising else np.argmin(early)) + 1
            name = f"{application} {path.stem.rpartition('-')[2]}"
            found.append(Run(name, values, end, float(values[end - 1]), rising))
    return found


def _look(run: Run, place: float) -> Look:
    seen = max(int(place * run.end), 1)
    engine = _engine(run, seen)
    left, stop = engine.remaining(), engine.stop
    assert isinstance(left, Interval)
    assert stop is not None
    true, budget = run.end - seen, len(run.values) - seen
    fitted = _optimus(run, seen)
    return Look(
        ours=abs(left.middle / EPOCH_S - true) / true,
        budget=(budget - true) / true,
        optimus=None if fitted is None else abs(max(fitted - seen, 0.0) - true) / true,
        covered=stop.ends.covers(run.end),
        width=(stop.ends.high - stop.ends.low) / budget,
    )


def _engine(run: Run, seen: int) -> EtaEngine:
    """After so many epochs, all of the same length: errors are those of the end alone."""
    engine = EtaEngine(Goal(float(len(run.values)), validate_every=1.0, stop=run.rule))
    for epoch in range(seen):
        engine.observe(Span(Doing.TRAIN, epoch * EPOCH_S, (epoch + 1) * EPOCH_S, 1.0))
        engine.measured(float(run.values[epoch]))
    return engine


def _optimus(run: Run, seen: int) -> float | None:
    """The epoch at which the plain fit of 1/(β0·k + β1) + β2 reaches the target; None if it never does."""
    losses = 1.0 - run.values[:seen] if run.rising else run.values[:seen]
    epochs, top = np.arange(1.0, seen + 1.0), float(losses.max())
    rate, first, floor = fit_curve(epochs, without_outliers(epochs, losses) / top).beta
    gap = (1.0 - run.target if run.rising else run.target) / top - floor
    return None if gap <= 0.0 or rate <= 0.0 else (1.0 / gap - first) / rate


def _judge(figures: Figures, place: float, looks: list[Look]) -> None:
    ours, budget = _median([look.ours for look in looks]), _median([look.budget for look in looks])
    answered = [look for look in looks if look.optimus is not None]
    optimus = _median([look.optimus for look in answered if look.optimus is not None])
    same = _median([look.ours for look in answered])
    at = f"at {place:.0%}"
    if place < PLACES[-1]:
        figures.at_most(f"{at}, ours over the epoch budget, in points", ours - budget, 2.0, "gate")
    else:
        figures.at_most(f"{at}, median error of ours over the epoch budget's", ours / budget, BETTER, "gate")
    figures.at_most(
        f"{at}, the same over the Optimus fit's, where that answers", same / optimus, BETTER, "gate"
    )
    figures.at_most(f"{at}, ends outside the interval", _missed(looks), MISSED, "gate", "%")
    figures.note(
        f"{at}: median / 90 % quantile: ours {_both([look.ours for look in looks])}, "
        f"budget {_both([look.budget for look in looks])}, "
        f"Optimus {_both([look.optimus for look in answered if look.optimus is not None])} "
        f"without {len(looks) - len(answered)} unanswered; "
        f"ours is nearer on {sum(x.ours < x.budget for x in looks)} curves than the budget, "
        f"on {sum(x.optimus is None or x.ours < x.optimus for x in looks)} than Optimus; "
        f"interval {np.mean([look.width for look in looks]):.0%} of what the budget leaves"
    )


def _sensitivity(figures: Figures, runs: list[Run]) -> None:
    """How much of it is the belief about budgets."""
    for name, belief in BELIEFS.items():
        errors = []
        for place in PLACES:
            seen = [max(int(place * run.end), 1) for run in runs]
            found = [
                abs(
                    forecast_stop(run.rule, run.values[:n].tolist(), len(run.values), belief).ends.middle
                    - run.end
                )
                / (run.end - n)
                for run, n in zip(runs, seen, strict=True)
            ]
            errors.append(f"{_median(found):.0f}")
        figures.note(f"with another belief ({name}), medians: {' / '.join(errors)} %")


def _other_targets(figures: Figures) -> None:
    """Ends nearer to the budget, and farther from it."""
    for until in (0.8, 0.95):
        told = []
        for place in PLACES:
            looks = [_look(run, place) for run in real_runs(until)]
            told.append(f"{_median([x.ours for x in looks]):.0f} ({_median([x.budget for x in looks]):.0f})")
        figures.note(f"targets from the first {until:.0%}, medians of ours (budget): {' / '.join(told)} %")


def _on_generated(figures: Figures, count: int = 100, seed: int = 3) -> None:
    """Curves of the kind the constants were chosen on, but new ones."""
    curves = [Run(each.name, each.values, each.end, each.target) for each in generated(count, seed)]
    for place in PLACES:
        looks = []
        for run in curves:
            seen = max(int(place * run.end), 1)
            ends = forecast_stop(run.rule, run.values[:seen].tolist(), len(run.values)).ends
            left = max(run.end - seen, 1)
            looks.append(
                (abs(ends.middle - run.end) / left, (len(run.values) - run.end) / left, ends.covers(run.end))
            )
        ours, budget, covered = zip(*looks, strict=True)
        figures.note(
            f"{count} generated curves at {place:.0%}: ours {_both(list(ours))}, budget {_both(list(budget))}, "
            f"interval covers {np.mean(covered):.0%}"
        )


def _told(look: Look) -> str:
    fitted = "none" if look.optimus is None else f"{100 * look.optimus:.0f}"
    return f"{100 * look.ours:3.0f} /{100 * look.budget:4.0f} /{fitted:>5}"


def _missed(looks: list[Look]) -> float:
    return 100.0 * float(np.mean([not look.covered for look in looks]))


def _median(errors: list[float]) -> float:
    return 100.0 * float(np.median(errors))


def _both(errors: list[float]) -> str:
    return f"{_median(errors):.0f} / {100.0 * float(np.quantile(errors, 0.9)):.0f} %"


if __name__ == "__main__":
    alone = Figures("predict-eta")
    time_left(alone)
    alone.finish()
