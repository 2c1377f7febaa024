"""Limits how often a caller may ask: token buckets, one per caller, in bounded memory.

The limits themselves are settings (``ApiSettings`` in ``settings.py``): ``rate_per_s`` and ``burst`` for each user,
``anonymous_rate_per_s`` and ``anonymous_burst`` for each address that shows no token, ``buckets`` for the memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Bucket:
    level: float
    at_s: float


class Buckets:
    """Each caller may ask ``burst`` times at once and ``rate_per_s`` times a second in the long run.

    Only the ``most`` latest callers are remembered; one that is forgotten starts with a full bucket.
    """

    def __init__(self, rate_per_s: float, burst: int, clock: Callable[[], float], most: int) -> None:
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[bytes, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, caller: bytes) -> float:
        """0 if the caller may ask now (and it is counted), else how long until then."""
        bucket = self._bucket(caller)
        if bucket.level >= 1.0:
            bucket.level -= 1.0
            return 0.0
        return (1.0 - bucket.level) / self._rate_per_s

    def _bucket(self, caller: bytes) -> _Bucket:
        now_s = self._clock()
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = _Bucket(self._burst, now_s)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(caller)
        gained = max(0.0, now_s - bucket.at_s) * self._rate_per_s
        bucket.level = min(self._burst, bucket.level + gained)
        bucket.at_s = now_s
        return bucket
