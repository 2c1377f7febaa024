"""Gradient vectors that are used again: fresh memory costs more than the arithmetic done in it."""

from __future__ import annotations

from elastane.train.reduce.gradients import GradientLayout, GradientVector


class VectorPool:
    """Vectors of one layout that nobody needs now; their content is arbitrary."""

    def __init__(self, layout: GradientLayout, limit: int) -> None:
        self._layout = layout
        self._limit = limit
        self._room = 0
        self._free: list[GradientVector] = []

    def take(self, room: int) -> GradientVector:
        """A vector with room for a tail of this size, and of any size asked for before."""
        self._room = max(self._room, room)
        while self._free:
            vector = self._free.pop()
            if len(vector.tail) >= self._room:
                return vector
        return self._layout.vector(self._room)

    def give(self, vector: GradientVector) -> None:
        """Nobody needs this one any more; beyond the limit it is let go."""
        if len(self._free) < self._limit:
            self._free.append(vector)
