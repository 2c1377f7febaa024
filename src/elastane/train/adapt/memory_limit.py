"""The largest batch per worker that fits in memory, found by trying and remembered.

``MemoryLimit`` only keeps the record; ``trial`` makes the attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elastane.train.errors import TrainError

_NEAR = 0.05  # closer than this to what does not fit, another attempt would gain nothing


class MemoryLimit:
    """What is known to fit, what is known not to, and how far the next attempt may go.

    ``assumed`` is what the owner trains with on one device; it counts as proven until it is refused.
    A ``declared`` limit is believed without proof, but a refusal below it still counts.
    """

    def __init__(self, declared: int | None = None, assumed: int = 1) -> None:
        if declared is not None and declared < 1:
            raise TrainError(f"per-worker maximum: must be 1 or more, not {declared}")
        self.declared = declared
        self._proven = max(1, min(assumed, declared or assumed))
        self._refused: int | None = None
        self._agreed = 0

    @property
    def known(self) -> int:
        """The largest batch per worker that has fitted so far."""
        return min(self._proven, self._agreed) if self._agreed else self._proven

    def agree(self, most: int) -> None:
        """No worker computes more at once: a real step with more ran out of memory somewhere (0: none did)."""
        self._agreed = most

    def allowed(self) -> int:
        """The largest batch per worker that may be tried next."""
        return min(self._promising(), self._agreed) if self._agreed else self._promising()

    def _promising(self) -> int:
        if self.declared is not None and (self._refused is None or self.declared < self._refused):
            return self.declared
        if self._refused is None:
            return 2 * self._proven
        if self._refused - self._proven <= max(1.0, _NEAR * self._proven):
            return self._proven
        return min(2 * self._proven, (self._proven + self._refused) // 2)

    def proven(self, samples: int) -> None:
        """A pass over that many samples fitted; what was refused once stays refused."""
        if self._refused is None or samples < self._refused:
            self._proven = max(self._proven, samples)

    def refused(self, samples: int) -> None:
        """A pass over that many samples did not fit."""
        if samples <= 1:
            raise TrainError("memory: not even one sample per worker fits")
        self._refused = min(samples, self._refused or samples)
        if self._proven >= self._refused:
            # What fitted once does not any more: nothing near it can be trusted either.
            self._proven = self._refused // 2

    def state_dict(self) -> dict[str, Any]:
        """The record as JSON values; the declared limit comes from the settings."""
        return {"proven": self._proven, "refused": self._refused}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        try:
            proven = int(state["proven"])
            refused = None if state["refused"] is None else int(state["refused"])
        except (KeyError, TypeError, ValueError) as error:
            raise TrainError(f"this is not a saved memory limit: {error!r}") from error
        self._proven, self._refused = proven, refused
