"""A job as a framework with a training loop of its own sees it: whole steps, and epochs it can begin in the middle of.

Such loops count batches and call a batch a step.  ``WholeSteps`` gives them the first unit of each step; when that
one is computed, ``finish`` ends it and computes whatever else this worker owes to the step, until the optimizer has
really stepped.  So batches and steps are the same again, however the work is shared and however often it is redone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from elastane.train.script.api import Job
from elastane.train.script.loader import ElasticLoader


class WholeSteps:
    """What the framework takes for its data loader; one of them per job.

    ``begun`` is called when the framework begins a pass, before the job does.
    """

    def __init__(
        self,
        job: Job,
        loader: ElasticLoader,
        dataset: Any = None,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        self.loader = loader
        self.dataset = dataset
        self._begun = begun
        self._job = job
        self.over = False
        """Whether the framework has met the end of the present pass."""
        self._units: Iterator[Any] | None = None
        self._epochs: Iterator[int] | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        self._begun()
        self.over = False
        self._units = self.loader.units()
        # Not "yield from": whoever forgets this generator would close the job's, which has not come to its end.
        for unit in self._units:  # noqa: UP028
            yield unit
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
        if not self.over and self.fraction == 1.0:
            for _ in self._units or self.loader.units():
                raise AssertionError("a pass without samples went on")
            self.over = True

    @property
    def fraction(self) -> float:
        """How much of the present pass has been trained on; 0 for streams."""
        length = self.loader.usable
        return self.loader.position / length if length else 0.0

    def begin_epoch(self, number: int, epochs: int) -> bool:
        """Bring the job to this of its epochs; False if it has already left it behind."""
        if self._epochs is None:
            self._job._session.leave_target_to_script()  # the framework counts, and would not notice
            self._epochs = self._job.epochs(epochs)
            next(self._epochs, None)
        elif self._job.epoch < number:
            self.end_pass()
        while self._job.epoch < min(number, epochs):
            next(self._epochs, None)
        return self._job.epoch == number

    def close(self) -> None:
        """Training is over, after the last epoch or before."""
        if self._epochs is not None and (self.over or self.fraction == 1.0):
            next(self._epochs, None)  # so that the last checkpoint knows that this epoch is complete
        self._job.finish()
