"""Counts failures that follow each other with no success between them: deaths without a step, groups without a line."""

from __future__ import annotations

from elastane.train.coordinator.worker_table import Worker


class Deaths:
    """Workers that died without a step of the job between them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._step = -1
        """At which the last of them died."""
        self._unborn_words = ""

    def count(self, step: int) -> int:
        """Deaths since the last step, of which ``step`` is the number.

        >>> deaths = Deaths(most=5)
        >>> deaths.another(7); deaths.another(7)
        >>> deaths.count(7), deaths.count(8)
        (2, 0)
        """
        return self._count if step <= self._step else 0

    def another(self, step: int) -> None:
        """Somebody has died, and it was not the end of a machine or a lack of memory."""
        self._count, self._step = self.count(step) + 1, step

    def too_many(self, step: int) -> bool:
        """Whether the job is to be given up."""
        return self.count(step) >= self._most

    def before_init(self, worker: Worker) -> None:
        """Doubt the words of a worker that never said hello.

        The first time may be bad luck: only the same end twice in a row is the script's own.
        """
        if worker.words != self._unborn_words:
            self._unborn_words, worker.words = worker.words, ""


class Unconnected:
    """Urgent plans whose members could not be connected with each other."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._generation = 0

    def is_news(self, generation: int) -> bool:
        """Whether nobody has said so of this generation before."""
        return generation != self._generation

    def another(self, generation: int) -> bool:
        """Whether these were so many in a row that it is not tried again; the next row begins then.

        >>> groups = Unconnected(most=2)
        >>> groups.another(3), groups.another(4), groups.another(5)
        (False, True, False)
        """
        self._generation = generation
        self._count = (self._count + 1) % self._most if self._most else 0
        return self._count == 0

    def explained(self) -> None:
        """All are connected, or somebody has died, who may be the one that could not be reached."""
        self._count = 0
