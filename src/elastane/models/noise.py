"""Estimates the gradient noise scale of a running job, step by step, from gradient norms.

Pure numbers in, pure numbers out: the training library measures the norms, this module only averages them.
It says nothing about speed, and it never chooses a batch.

====== ================================================================= ==========================
symbol meaning                                                            here
====== ================================================================= ==========================
n      gradient samples in one optimizer step, replicas × passes          ``count``
M0     batch size its owner chose                                         ``batch0``
M, S   total batch of the step, and M / M0                                ``scale``
local  mean of |P g_i|² over the n gradient samples (P: preconditioner)   ``local``
total  |P g|² of their mean g                                             ``total``
sqr    unbiased |P g|² of the true gradient                               (n·total − local) / (n − 1)
var    trace of the gradient covariance at batch M0                       (local − total)·S / (n − 1)
φ      noise scale in samples                                             M0 · var / sqr
====== ================================================================= ==========================

Reference: Qiao et al., Pollux, OSDI 2021, section 3.1; McCandlish et al., 2018, appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate, Provenance

MEMORY = 0.999
"""What one step at M0 leaves of older steps; a step at scale S leaves MEMORY ** S."""

_VAR_FLOOR = 1e-6
_ZEROS = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """Smoothed gradient statistics; ``observe`` returns the next state.

    ``sqr``, ``var`` (one entry per parameter group) and ``moments`` (sqr², sqr·var and var² of the groups'
    total) are weighted sums; dividing by ``weight`` removes the bias of a young moving average.
    ``weight_sqr`` is the sum of the squared weights, which says how many steps the average is worth.
    """

    batch0: int
    sqr: tuple[float, ...] = ()
    var: tuple[float, ...] = ()
    moments: tuple[float, float, float] = _ZEROS
    weight: float = 0.0
    weight_sqr: float = 0.0
    count: int = 0
    biased: bool = False

    def __post_init__(self) -> None:
        if self.batch0 < 1:
            raise ElastaneError(f"the initial batch size must be 1 or more, not {self.batch0}")

    def observe(self, local: Sequence[float], total: Sequence[float], count: int, scale: float) -> NoiseScale:
        """Takes in one step with ``count`` ≥ 2 gradient samples; one ``local`` and ``total`` per group.

        A step with any norm that is not finite (an overflow in mixed precision) changes nothing.
        """
        if not _usable(local, total, count, scale):
            return self
        # Differences of successive steps are biased; the first sample of several gradients replaces them all.
        start = NoiseScale(self.batch0) if self.biased else self
        return start._averaged(local, total, count, scale)

    def observe_single(
        self, now: Sequence[float], before: Sequence[float], mean: Sequence[float], scale: float
    ) -> NoiseScale:
        """Takes in a step with one gradient sample, compared with the step before it.

        ``now`` and ``before`` are |g_t|² and |g_t−1|², ``mean`` is |(g_t + g_t−1)/2|², ``scale`` is m / M0.
        """
        local = [(a + b) / 2.0 for a, b in zip(now, before, strict=True)]
        if not _usable(local, mean, 2, 2.0 * scale):
            return self
        return replace(self._averaged(local, mean, 2, 2.0 * scale), biased=True)

    def gain(self, scale: float) -> float:
        """Returns the progress of one step at ``scale``, in steps at M0: (var + sqr) / (var/S + sqr), from 1 to S."""
        sqr, var = self._totals()
        return (var + sqr) / (var / scale + sqr)

    def group_gains(self, scale: float) -> tuple[float, ...]:
        """Returns the gain of each parameter group alone, as AdaScale's learning rate needs it."""
        return tuple((var + sqr) / (var / scale + sqr) for sqr, var in self._groups())

    def efficiency(self, batch: float) -> float:
        """Returns the progress per sample at a total batch M, relative to M0: (φ + M0) / (φ + M)."""
        sqr, var = self._totals()
        return (var + sqr) / (var + sqr * batch / self.batch0)

    @property
    def phi(self) -> float:
        """Noise scale in samples; infinite while noise drowns the gradient altogether."""
        sqr, var = self._totals()
        return self.batch0 * var / sqr if sqr > 0.0 else math.inf

    def estimate(self) -> Estimate:
        """φ with the standard error of the ratio of two averages (delta method).

        Before the first sample: hardly any noise, so that no larger batch is believed in without evidence.
        """
        phi = self.phi
        if not self.count:
            return Estimate(phi, float(self.batch0), 0, Provenance.PRIOR)
        return Estimate(phi, phi * self._relative_error(), self.count, Provenance.PROFILED)

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON values, for a checkpoint."""
        state = asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in state.items()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> NoiseScale:
        """The inverse of ``to_dict``."""
        try:
            a, b, c = (float(x) for x in state["moments"])
            return cls(
                batch0=int(state["batch0"]),
                sqr=tuple(float(x) for x in state["sqr"]),
                var=tuple(float(x) for x in state["var"]),
                moments=(a, b, c),
                weight=float(state["weight"]),
                weight_sqr=float(state["weight_sqr"]),
                count=int(state["count"]),
                biased=bool(state["biased"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ElastaneError(f"this is not a saved gradient noise state: {error!r}") from error

    def _averaged(self, local: Sequence[float], total: Sequence[float], count: int, scale: float) -> NoiseScale:
        sqr = [(count * t - a) / (count - 1) for a, t in zip(local, total, strict=True)]
        var = [(a - t) * scale / (count - 1) for a, t in zip(local, total, strict=True)]
        q, v = sum(sqr), sum(var)
        keep = MEMORY**scale
        m = self.moments
        return replace(
            self,
            sqr=_blend(self.sqr or (0.0,) * len(sqr), sqr, keep),
            var=_blend(self.var or (0.0,) * len(var), var, keep),
            moments=(
                keep * m[0] + (1.0 - keep) * q * q,
                keep * m[1] + (1.0 - keep) * q * v,
                keep * m[2] + (1.0 - keep) * v * v,
            ),
            weight=keep * self.weight + (1.0 - keep),
            weight_sqr=keep**2 * self.weight_sqr + (1.0 - keep) ** 2,
            count=self.count + 1,
            biased=False,
        )

    def _groups(self) -> list[tuple[float, float]]:
        if not self.count:
            return [(1.0, _VAR_FLOOR)]
        averages = zip(self.sqr, self.var, strict=True)
        return [(max(s / self.weight, 0.0), max(v / self.weight, _VAR_FLOOR)) for s, v in averages]

    def _totals(self) -> tuple[float, float]:
        groups = self._groups()
        return sum(sqr for sqr, _ in groups), sum(var for _, var in groups)

    def _relative_error(self) -> float:
        """Standard error of var/sqr over its value; 1 while there is no spread to learn from."""
        share = self.weight_sqr / self.weight**2
        sqr, var = self._totals()
        if self.count < 2 or share >= 1.0 or sqr <= 0.0:
            return 1.0
        mean_q, mean_v = sum(self.sqr) / self.weight, sum(self.var) / self.weight
        qq, qv, vv = (moment / self.weight for moment in self.moments)
        spread = (
            (qq - mean_q * mean_q) / sqr**2
            + (vv - mean_v * mean_v) / var**2
            - 2.0 * (qv - mean_q * mean_v) / (sqr * var)
        )
        return math.sqrt(max(spread, 0.0) * share / (1.0 - share))


def _usable(local: Sequence[float], total: Sequence[float], count: int, scale: float) -> bool:
    if count < 2 or not scale > 0.0:
        raise ValueError(f"a noise sample needs two gradients and a positive scale, not {count} and {scale}")
    return all(math.isfinite(value) for value in (*local, *total))


def _blend(old: Sequence[float], new: Sequence[float], keep: float) -> tuple[float, ...]:
    return tuple(keep * a + (1.0 - keep) * b for a, b in zip(old, new, strict=True))
