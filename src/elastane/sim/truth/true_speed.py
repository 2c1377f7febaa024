"""Provides the base of the speed models that oracle policies read: provenance ORACLE, and every size seen."""

from __future__ import annotations

from abc import ABC, abstractmethod

from elastane.models.estimate import Provenance


class TrueSpeed(ABC):
    """A speed model taken from the truth."""

    @property
    def source(self) -> Provenance:
        """The provenance of this speed: the ground truth."""
        return Provenance.ORACLE

    @property
    @abstractmethod
    def max_useful(self) -> int:
        """The largest number of workers that can be given any work at all."""

    @property
    def max_profiled(self) -> int:
        """The most workers it was seen with: all that can be used."""
        return self.max_useful
