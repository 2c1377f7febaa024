"""``python -m benchmarks.predict.coverage``: how often a calibrated machine's interval is right, on drawn networks.

Here the rule of the interval is chosen, so that the networks of ``whole`` need not be looked at for it.  Networks of a
seed that no calibration uses are measured as ``calibrate`` does, and beside it as ``whole`` does, both twice.  Then
many calibrations are made up of some of them, and each is asked about the rest.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from functools import partial

import numpy as np

from elastane.codec import decoded, encoded
from elastane.models.speed import FloatArray
from elastane.predict.calibration.calibrate import measure_drawn, prepare, probe_device, profile_of
from elastane.predict.calibration.measuring_process import in_child
from elastane.predict.calibration.networks import FAMILIES, network
from elastane.predict.calibration.timing import MeasuredStep, clock, measure_step
from elastane.predict.composition import HALF, NINE_IN_TEN
from elastane.predict.devices import Device
from elastane.predict.interval import Z90
from elastane.predict.job import TrainingJob

ROUNDS = 2
NORMAL = (Z90 / 0.6744897501960817) / (NINE_IN_TEN / HALF)
"""Where the border would lie with a normal tail, over where it lies."""


class Pool:
    """Drawn networks, measured in two random orders."""

    def __init__(self, seed: int, count: int) -> None:
        prepare()
        ticks = clock()
        self.device = decoded(Device, in_child(lambda: encoded(probe_device(ticks))))
        self.steps: list[dict[int, MeasuredStep]] = [{} for _ in range(ROUNDS)]
        self._ratios: dict[int, list[float]] = {index: [] for index in range(count)}
        for place, steps in enumerate(self.steps):
            for index in random.Random(place).sample(range(count), count):
                steps[index] = measure_drawn(partial(network, seed, index), ticks)
                step_s, tick_s = measure_step(partial(_job, seed, index), network(seed, index)[1])
                self._ratios[index].append(step_s / tick_s)

    @property
    def indices(self) -> Sequence[int]:
        """All networks."""
        return sorted(self._ratios)

    def ticks(self, index: int) -> float:
        """A step of a network, in ticks."""
        return math.exp(float(np.mean(np.log(self._ratios[index]))))


def _job(seed: int, index: int) -> TrainingJob:
    return network(seed, index)[0]


def split(pool: Pool, count: int, seed: int) -> tuple[list[int], list[int]]:
    """Networks to calibrate with, as many of each family, and the others."""
    draw, families = random.Random(seed), len(FAMILIES)
    alike = [[index for index in pool.indices if index % families == family] for family in range(families)]
    turns = [draw.sample(each, len(each)) for each in alike]
    known = [turns[place % families][place // families] for place in range(count)]
    return known, [index for index in pool.indices if index not in known]


def asked(pool: Pool, known: Sequence[int], others: Sequence[int]) -> FloatArray:
    """Log errors of a calibration, each over the border of its interval: up to 1 it is covered."""
    profile = profile_of([{index: steps[index] for index in known} for steps in pool.steps], pool.device)
    found = []
    for index in others:
        step = pool.steps[0][index]
        times = profile.model.times(step.operators, pool.device)
        whole_s = profile.composition.whole_s(times.total, step.calls)
        error = math.log(whole_s / (pool.ticks(index) * profile.tick_s))
        found.append(abs(error) / (Z90 * profile.composition.spread(times.own_sd)))
    return np.array(found)


def main() -> None:
    """Print what each calibration covers, and all together, with another tail as well."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predict.coverage", description=__doc__)
    parser.add_argument("--seed", type=int, default=12, help="of the networks; 0 is that of calibrate")
    parser.add_argument("--networks", type=int, default=175)
    parser.add_argument("--known", type=int, default=70, help="networks of a calibration")
    parser.add_argument("--calibrations", type=int, default=24)
    options = parser.parse_args()
    pool = Pool(options.seed, options.networks)
    rows = []
    for place in range(options.calibrations):
        rows.append(asked(pool, *split(pool, options.known, place)))
        print(f"90 % interval covers {100 * float(np.mean(rows[-1] <= 1.0)):.0f} %", flush=True)
    count, known = len(rows[0]), options.known
    print(f"{len(rows)} calibrations with {known} networks, each asked about {count} others:")
    for name, border in (("as it is", 1.0), ("with a normal tail", NORMAL)):
        covered = [100 * float(np.mean(row <= border)) for row in rows]
        print(
            f"  {name} the interval covers {np.mean(covered):.1f} % (± {np.std(covered):.1f} between calibrations)"
        )
    half, most = np.quantile(np.concatenate(rows), (0.5, 0.9))
    print(f"  nine in ten errors stay below {most / half:.2f} medians (a normal distribution has 2.44)")


if __name__ == "__main__":
    main()
