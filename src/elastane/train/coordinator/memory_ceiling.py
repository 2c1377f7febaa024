"""Decides what a death by lack of memory in a step means: parts of steps are halved, or the job has to fail.

Workers say how large the parts are that they compute (``Parts``), so neither the words of an error nor the time of a
death is interpreted.  Several members run out of memory in the same step as a rule: that is one occasion.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastane.train.coordinator.worker_table import Worker
from elastane.train.exit_cause import ExitCause, ExitKind


@dataclass(frozen=True, slots=True)
class Halved:
    """Parts may be half as large from now on: that has to be recorded, and told."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Known:
    """The worker's parts were larger than what has been agreed on since."""


@dataclass(frozen=True, slots=True)
class Hopeless:
    """The job cannot go on with less."""

    words: str


Judgement = Halved | Known | Hopeless


@dataclass(slots=True)
class MemoryCeiling:
    """How large a part of a step may be, as far as this job has met a limit."""

    most: int = 0
    """0: no limit was met."""
    _since: int = 0
    """The first generation whose members know it."""

    def judge(self, worker: Worker, cause: ExitCause, coming: int) -> Judgement | None:
        """What this end means; None if it is one as any other.  ``coming`` is the next generation."""
        samples = worker.samples
        if cause.kind is not ExitKind.OUT_OF_MEMORY or not samples:
            return None
        by_itself = cause.signal is None  # the kernel may choose its victim because of others
        if _fixed_parts(worker):
            return (
                Hopeless(_FIXED.format(name=worker.name, samples=samples, cause=cause)) if by_itself else None
            )
        if self.most and samples > self.most and worker.entered < self._since:
            return Known()
        if samples <= 1:
            return Hopeless(_LAST.format(name=worker.name, cause=cause)) if by_itself else None
        self.most, self._since = samples // 2, coming
        return Halved(samples, self.most)


_FIXED = (
    "out of memory with {samples} samples on {name}: consistent mode has parts of a fixed size, which are not halved; "
    "say et.init(virtual=N) with a larger N, or a smaller batch_size ({cause})"
)
_LAST = "out of memory with a single sample on {name}: there is nothing left to halve ({cause})"


def _fixed_parts(worker: Worker) -> bool:
    settings = worker.signature.get("settings", {})
    return isinstance(settings, dict) and settings.get("mode") == "consistent"
