"""``LiveEvidence`` states a live job's work and speed to the kernel, from its reports and from past jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from elastane.models.estimate import Estimate
from elastane.models.goodput import GoodputModel
from elastane.service.control.job_measurements import JobMeasurements


class LiveEvidence:
    """Implements ``scheduling.facts.Evidence``.  Its answers are those of the moment of the first question."""

    def __init__(self, learned: JobMeasurements, accelerators: Sequence[str], deadline_s: float | None) -> None:
        self._learned, self._accelerators, self._deadline_s = learned, accelerators, deadline_s

    def remaining(self) -> Estimate | None:
        """Work left by its own account of its progress; before it reports any, by past jobs like it."""
        return self._remaining

    def speed(self) -> GoodputModel | None:
        """The model fitted to what it measured; before that, to what past jobs did."""
        return self._speed

    def deadline_s(self) -> float | None:
        """The deadline its owner gave."""
        return self._deadline_s

    def declared_s(self) -> float | None:
        """Returns None: a spec has no field for a run time; what owners declare (epochs) reaches ``remaining``."""
        return None

    def losses(self) -> Sequence[tuple[float, float]]:
        """Returns nothing: a curve is read to foretell the end, which live jobs state themselves (``remaining``).

        A live job reports its progress against the epochs that it was told, which no forecast of a curve can beat.
        """
        return ()

    def skew(self) -> float | None:
        """Returns None: it matters for parameter servers, which a live cluster refuses (``jobs/unsupported.py``)."""
        return None

    @cached_property
    def _remaining(self) -> Estimate | None:
        return self._learned.remaining

    @cached_property
    def _speed(self) -> GoodputModel | None:
        return self._learned.speed(*self._accelerators)
