"""A job as a framework with a training loop of its own sees it: whole steps, and epochs it can begin in the middle of.

Such loops count batches and call a batch a step.  ``WholeSteps`` gives them the first unit of each step; when that
one is computed, ``finish`` ends it and computes whatever else this worker owes to the step, until the optimizer has
really stepped.  So batches and steps are the same again, however the work is shared and however often it is redone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from elastane.train.job import Job
from elastane.train.loader import ElasticLoader


class WholeSteps:
    """What the framework takes for its data loader; one of them per job."""

    def __init__(self, job: Job, loader: ElasticLoader, dataset: Any = None) -> None:
        self.loader = loader
        self.dataset = dataset
        self._job = job
        self.over = False
        """Whether the framework has met the end of the present pass."""
        self._units: Iterator[Any] | None = None
        self._epochs: Iterator[int] | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        self.end_pass()
        self.over = False
        self._units = iter(self.loader)
        yield from self._units
        self.over = True

    def finish(self, end_unit: Callable[[], Any], compute: Callable[[Any], Any]) -> None:
        """The unit that was given out is computed: complete the step.

        ``end_unit`` is the job's own ``optimizer.step``; ``compute`` runs forward and backward of a further unit.
        """
        assert self._units is not None
        end_unit()
        while not self._job.stepped:
            compute(next(self._units))
            end_unit()

    def end_pass(self) -> None:
        """Let the pass end, where a framework that counts did not look whether there is more."""
        units, self._units = self._units, None
        if units is not None and not self.over and self.fraction == 1.0:
            for _ in units:
                raise AssertionError("a pass without samples went on")

    @property
    def fraction(self) -> float:
        """How much of the present pass has been trained on; 0 for streams."""
        length = self.loader.source.length
        return self.loader.position / length if length else 0.0

    def begin_epoch(self, number: int, epochs: int) -> bool:
        """Bring the job to this of its epochs; False if it has already left it behind."""
        if self._epochs is None:
            self._epochs = self._job.epochs(epochs)
            next(self._epochs, None)
        while self._job.epoch < number:
            next(self._epochs)
        return self._job.epoch == number
