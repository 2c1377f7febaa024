"""``Generations`` counts the generations of a job, and begins none below what is stored of a run whose log was lost."""

from __future__ import annotations

_LATEST_STORED = 2**50
"""What a worker tells of later generations is nonsense."""
_UNWRITTEN = 1000
"""Changes of members since the last checkpoint: what an earlier run may have seen at most."""


class Generations:
    """The latest generation that was published, and the latest that may be stored without our knowledge."""

    def __init__(self, published: int = 0, stored: int = 0) -> None:
        self.published = published
        self.stored = stored

    @property
    def latest(self) -> int:
        """The latest generation that anybody knows of."""
        return max(self.published, self.stored)

    @property
    def following(self) -> int:
        """The generation of the next plan."""
        return self.latest + 1

    def publish(self, generation: int) -> None:
        """There is a plan of this generation now."""
        self.published = generation

    def found_stored(self, generation: int) -> bool:
        """Whether a checkpoint of this generation is news: it would never be read if fewer were published.

        >>> job = Generations(published=3)
        >>> job.found_stored(3), job.found_stored(12), job.following
        (False, True, 1013)
        """
        if not self.latest < generation <= _LATEST_STORED:
            return False
        # A run whose log was lost may have come further than it has written, and may still be at it.
        self.stored = generation + _UNWRITTEN
        return True
