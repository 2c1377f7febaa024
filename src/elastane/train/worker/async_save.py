"""Checkpoints are saved when they are due, while the training goes on.

``AsyncSaver`` copies the state and lets a thread write it; ``SaveInterval`` says how often that pays.  Neither knows
what the state is, and neither decides at which step a state is fit to be saved.

The interval weighs the pause of each save against the work lost in a failure (Young 1974; Daly 2006, equation 37):

====== ====================================================================== ==========================
symbol meaning                                                                 here
====== ====================================================================== ==========================
δ      pause of one save, smoothed                                             ``cost_s``
T, k   time watched, and failures in it                                        ``observed_s``, ``failures``
M0     mean time between failures believed at first                            ``prior_mtbf_s``
M      mean time between failures                                              (M0 + T) / (1 + k)
τ      interval, from the end of one save to the next                          ``seconds``
====== ====================================================================== ==========================

τ = √(2δM) · (1 + √(δ/2M)/3 + (δ/2M)/9) − δ while δ < 2M, else M.  The first factor is Young's, the second Daly's
correction for a δ that is not small.  M is one over the mean of the failure rate under a Gamma prior of shape 1 and
rate M0, which counts as one failure seen in M0; failures are taken to be a Poisson process.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elastane.train.errors import PlaceAway, TrainError
from elastane.train.worker.checkpoint_store import CheckpointStore
from elastane.train.worker.node_snapshots import NodeSnapshots
from elastane.train.worker.state_codec import Clone, Packed, clone_tensors, nbytes, start_clone

OVERHEAD = 0.01
"""The share of the time that saves may pause the training, at most."""

_NEWEST_COST = 0.3
"""Weight of the latest pause in the smoothed one: pauses vary with what else the machine does."""


@dataclass(frozen=True, slots=True)
class SaveFacts:
    """One finished save: ``blocking_s`` is what the training waited, ``write_s`` what the thread took."""

    step: int
    bytes: int
    blocking_s: float
    write_s: float


class AsyncSaver:
    """Writes checkpoints in a thread; the caller waits only for a copy in memory.

    From a device not even that: its stream makes the copy before anything that it is given later, and the thread
    waits for it.

    There are two copies in turn, so that ``snapshot`` (the latest one) is whole even while, or after, the next
    one was broken off.  The thread does not outlive the process: call ``flush`` before the end.
    """

    def __init__(
        self,
        store: CheckpointStore,
        clock: Callable[[], float] = time.monotonic,
        memory: NodeSnapshots | None = None,
    ) -> None:
        self.store = store
        self.memory = memory
        """Takes every copy as well; None if there is none here (any more)."""
        self.snapshot: Packed | None = None
        self.last: SaveFacts | None = None
        self.problem: TrainError | None = None
        """Why the latest write failed; None again after one that did not."""
        self.device_s = 0.0
        """Seconds for which the latest copy kept a device from the training."""
        self._clock = clock
        self._spare: Packed | None = None
        self._thread: threading.Thread | None = None
        self._untold: TrainError | None = None

    @property
    def busy(self) -> bool:
        """Whether a write is under way."""
        return self._thread is not None and self._thread.is_alive()

    def prepare(self, packed: Packed) -> None:
        """Set memory aside before the training begins; new memory makes a copy up to twenty times slower."""
        self._spare = clone_tensors(packed, into=self._spare)

    def submit(
        self, step: int, packed: Packed, info: Mapping[str, Any], generation: int = 0, *, to_disk: bool = True
    ) -> bool:
        """Copy the state and begin to write it; False, and nothing happens, if a write is still under way.

        Without ``to_disk`` it goes into the node's memory only.
        Raises what made the write before fail, once; nothing is copied then.  Of a place that did not answer only
        ``problem`` tells: this is the next try.
        """
        if self.busy:
            return False
        if isinstance(self._untold, PlaceAway):
            self._untold = None
        self._tell()
        started = self._clock()
        clone = start_clone(packed, into=self._spare)
        clone.copies.hold_back()
        self._spare, self.snapshot = self.snapshot, clone.packed
        blocking_s = self._clock() - started
        work = (step, clone, copy.deepcopy(dict(info)), generation, blocking_s)
        write = self._write if to_disk else self._keep
        self._thread = threading.Thread(target=write, args=work, name="checkpoint", daemon=True)
        self._thread.start()
        return True

    def flush(self) -> None:
        """Wait for the write under way; raises what made the latest one fail if nobody was told yet."""
        if self._thread is not None:
            self._thread.join()
        self._tell()

    def _tell(self) -> None:
        problem, self._untold = self._untold, None
        if problem is not None:
            raise problem

    def _keep(
        self, step: int, clone: Clone, info: Mapping[str, Any], generation: int, _blocking_s: float
    ) -> None:
        """Into memory; a node that has none for it goes on without."""
        try:
            clone.copies.wait()
            self.device_s = clone.copies.copying_s()
            if self.memory is not None and not self.memory.save(step, clone.packed, info, generation):
                self.memory = None
        except Exception:  # whatever it is: what is on disk is good, and training goes on
            self.memory = None

    def _write(
        self, step: int, clone: Clone, info: Mapping[str, Any], generation: int, blocking_s: float
    ) -> None:
        started, packed = self._clock(), clone.packed
        try:
            clone.copies.wait()
            self.store.raise_fence(generation)
            self.store.save(step, packed, info, generation)
            self.problem = None
            self._keep(step, clone, info, generation, blocking_s)
            paused_s = blocking_s + self.device_s
            self.last = SaveFacts(step, nbytes(packed), paused_s, self._clock() - started)
            if self._spare is None:
                self.prepare(packed)  # here, where nobody waits for it
        except Exception as error:
            wrapped = TrainError(f"the checkpoint of step {step} failed: {error!r}")
            wrapped.__cause__ = error
            self.problem = self._untold = error if isinstance(error, TrainError) else wrapped


class SaveInterval:
    """Seconds between saves: the user's, or those that lose the least; the table above has the formula.

    ``failed`` is for failures that cost the work since the last save; a lost worker whose work the others still
    have is none.  ``to_dict`` gives the keyword arguments that carry what was learned over a restart.
    """

    def __init__(
        self,
        now_s: float,
        fixed_s: float | None = None,
        *,
        min_s: float = 10.0,
        max_s: float = 1800.0,
        prior_mtbf_s: float = 3600.0,
        cost_s: float | None = None,
        observed_s: float = 0.0,
        failures: int = 0,
    ) -> None:
        if fixed_s is not None and not 0.0 < fixed_s < math.inf:
            raise TrainError(f"the checkpoint interval must be a number of seconds above 0, not {fixed_s}")
        if not 0.0 < min_s <= max_s:
            raise TrainError(f"the checkpoint interval cannot be between {min_s} and {max_s} seconds")
        self.fixed_s = fixed_s
        self.min_s = min_s
        self.max_s = max_s
        self.prior_mtbf_s = prior_mtbf_s
        self.cost_s = cost_s
        self.failures = failures
        self._watched_since = now_s - observed_s
        self._saved_at = now_s

    def due(self, now_s: float) -> bool:
        """Whether to save now."""
        return now_s - self._saved_at >= self.seconds(now_s)

    def saved(self, now_s: float, cost_s: float) -> None:
        """A save ended now and paused the training for ``cost_s``."""
        self._saved_at = now_s
        old = cost_s if self.cost_s is None else self.cost_s
        self.cost_s = old + _NEWEST_COST * (cost_s - old)

    def failed(self, now_s: float) -> None:
        """A failure made the job go back to its last save, so that nothing is unsaved now."""
        self.failures += 1
        self._saved_at = now_s

    def mtbf_s(self, now_s: float) -> float:
        """Mean time between failures, M."""
        return (self.prior_mtbf_s + now_s - self._watched_since) / (1 + self.failures)

    def seconds(self, now_s: float) -> float:
        """The interval, τ within its limits; the shortest until the first save has shown its cost."""
        if self.fixed_s is not None:
            return self.fixed_s
        if self.cost_s is None:
            return self.min_s
        best = daly_interval(self.cost_s, self.mtbf_s(now_s))
        return max(min(max(best, self.min_s), self.max_s), self.cost_s / OVERHEAD)

    def to_dict(self, now_s: float) -> dict[str, Any]:
        """What was learned, as JSON values."""
        return {"cost_s": self.cost_s, "observed_s": now_s - self._watched_since, "failures": self.failures}


def daly_interval(cost_s: float, mtbf_s: float) -> float:
    """τ for a pause δ and a mean time between failures M, without limits."""
    if cost_s >= 2.0 * mtbf_s:
        return mtbf_s
    ratio = cost_s / (2.0 * mtbf_s)
    return math.sqrt(2.0 * cost_s * mtbf_s) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - cost_s
