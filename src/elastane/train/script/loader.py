"""The loader a script loops over: each worker gets its units of each step, each sample once per pass.

The position is a number of samples, part of the replicated state.  Whoever computes a step, and however often
it has to be repeated, the samples are those after the position, and the position moves when the step is applied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from elastane.train.data.contract import Source
from elastane.train.data.torch_settings import LoaderSettings
from elastane.train.errors import TrainError
from elastane.train.script.batches_ahead import BatchesAhead
from elastane.train.script.loop_exit import LoopExit
from elastane.train.script.training import Training
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.loop import Loop

_ALMOST = 1e-6


class ElasticLoader:
    """An iterable that gives each worker its units of every step; ``job.loader`` makes it."""

    def __init__(
        self,
        name: str,
        source: Source,
        settings: LoaderSettings,
        training: Training,
        adapts: bool,
    ) -> None:
        self.name = name
        self.source = source
        self.settings = settings
        self.batch_size = batch_size = settings.batch_size
        self.adapts = adapts
        self.position = 0
        self.passes = 0
        self.steps = 0
        """Whole steps made in the present loop, by whoever made them: the same on every worker."""
        self.skipped = 0
        """Those of which the script skipped every part."""
        self.entered_inside = False
        """Whether the script came into the present loop in its middle."""
        self._loops_done = 0
        self._loops_seen = 0
        self._epoch = 0
        self._seen_in = 0
        self._opened: int | None = None
        self._loop_exit: LoopExit | None = None
        self._before_exit = (0, 0, 0, 0)
        self._training = training
        if source.length is not None and batch_size > source.length:
            raise TrainError(
                f"loader {name!r}: batch_size {batch_size} is larger than the data set ({source.length} samples)"
            )

    def __len__(self) -> int:
        """Steps of one pass at the owner's batch size."""
        if self.source.length is None:
            raise TypeError(f"loader {self.name!r} reads a stream of unknown length")
        return math.ceil((self.usable or 0) / self.batch_size)

    def __getattr__(self, name: str) -> Any:
        """What scripts ask a ``DataLoader`` for: ``dataset``, ``drop_last``, ``num_workers`` and so on."""
        if name == "settings":  # not made yet
            raise AttributeError(name)
        return self.settings.attribute(name)

    @property
    def usable(self) -> int | None:
        """Samples of a pass that are trained on, without the rest that ``drop_last`` leaves; None if unknown."""
        length = self.source.length
        rest = length % self.batch_size if length and self.settings.drop_last else 0
        return None if length is None else length - rest

    @property
    def step_size(self) -> int:
        """Samples of one step, as the owner means it: several batches where gradients are accumulated."""
        return self.batch_size * self._training.recipe.accumulate

    def __bool__(self) -> bool:
        """A loader is always there: ``if loader`` must not ask a stream for its length."""
        return True

    @property
    def replaying(self) -> bool:
        """Whether the script has not yet come to where this loader stands."""
        self._turn_epoch()
        return self._epoch > self._training.position.here or self._loops_seen < self._loops_done

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.units()
        except GeneratorExit as leaving:
            # A "break": nothing may be raised here.  What was fetched and not stepped on comes first in the next loop.
            self._loop_exit = LoopExit.now(leaving)
            self._training.loop.drop()
            self._turn_epoch()
            self._before_exit = (self._loops_done, self._loops_seen, self.steps, self.skipped)
            self._end_loop()
            self._loops_seen += 1
            raise

    @property
    def place(self) -> str:
        """Which loop over which pass the script is in, and how far that is; as it counts, not as it was told."""
        return f"{self.name} {self._training.position.here} {self._loops_seen} {self.passes} {self.position}"

    def took_by_error(self, error: BaseException) -> bool:
        """Whether the latest loop was left because the script ends by this error; if so, it counts as not left."""
        if self._loop_exit is None or not self._loop_exit.was_by(error):
            return False
        self._loop_exit = None
        self._loops_done, self._loops_seen, self.steps, self.skipped = self._before_exit
        return True

    def units(self) -> Iterator[Any]:
        """What this worker has to compute; closed early, it leaves the loop open."""
        loop = self._training.enter()
        if self.replaying:
            self._loops_seen += 1
            return
        ahead = BatchesAhead(self.source, loop.membership.device)
        with loop.host_tail.doing_meanwhile(ahead.look_ahead):
            yield from self._units(loop, ahead)
        # Done here, or by those whose state was taken over in the middle of it.
        self._loops_seen += 1

    def _units(self, loop: Loop, ahead: BatchesAhead) -> Iterator[Any]:
        position = self._training.position
        entering = True
        while not self.replaying:
            position.arrive()
            loop.boundary(loop_begins=entering and not self.steps)
            if self.replaying:
                break  # others had left the loop, and their state was taken over
            if entering:
                entering, self.entered_inside = False, self.steps > 0
            if self._enough() or not loop.begin(self):
                self._refuse_untrained()
                ahead.forget()
                if not self._next_pass():
                    self._end_loop()
                continue
            ahead.expect(loop.spans_ahead(self.position), self.usable)
            while (unit := loop.next_unit()) is not None:
                offset, count = unit
                batch = ahead.fetch((self.position + offset, count))
                position.enter_body()
                try:
                    yield batch
                finally:
                    position.leave_body()

    def available(self, samples: int) -> int:
        """How many of the next ``samples`` there are in this pass."""
        if self._opened != self.passes:
            self.source.open(self.passes)
            self._opened = self.passes
        found = self.source.available(self.position, samples)
        if not self.settings.drop_last:
            return found
        if self.usable is not None:
            return min(found, self.usable - self.position)
        # The end of a stream, found by reading.
        return found if found == samples else found // self.batch_size * self.batch_size

    def advance(self, samples: int, *, skipped: bool = False) -> None:
        """A step on these is complete; ``skipped`` if the script skipped every part of it."""
        self.position += samples
        self.steps += 1
        self.skipped += skipped

    def _end_loop(self) -> None:
        self._loops_done += 1
        self.steps = self.skipped = 0

    def _refuse_untrained(self) -> None:
        if self.steps and self.skipped == self.steps:
            raise TrainError(
                f"loader {self.name!r}: every batch was skipped, none had a backward() and an opt.step(); to evaluate, "
                "loop over a plain DataLoader in a function given to job.evaluate(...)"
            )

    def _turn_epoch(self) -> None:
        """Count loops per epoch: those the script has come by, and those that are done."""
        if self._seen_in != self._training.position.here:
            self._seen_in, self._loops_seen = self._training.position.here, 0
        if self._epoch < self._training.position.here:
            self._epoch, self._loops_done = self._training.position.here, 0

    def _target(self) -> float | None:
        """Progress at which this epoch ends, where epochs are statistical (adaptive mode)."""
        adaptation, mode = self._training.loop.adaptation, self._training.settings.mode
        statistical = self.adapts and mode is Mode.ADAPTIVE and adaptation is not None
        if not statistical or self.source.length is None:
            return None
        return (self.usable or 0) * (self._training.position.here + 1) / self.step_size

    def _enough(self) -> bool:
        target = self._target()
        return target is not None and self._progress() >= target - _ALMOST

    def _progress(self) -> float:
        adaptation = self._training.loop.adaptation
        return adaptation.progress if adaptation is not None else 0.0

    def _next_pass(self) -> bool:
        """The pass is over, or the epoch is; True if this epoch goes on with another pass."""
        if self._enough():
            return False
        self.passes, self.position = self.passes + 1, 0
        return self._target() is not None

    def state_dict(self) -> dict[str, Any]:
        """Where this loader stands."""
        return {
            "passes": self.passes,
            "position": self.position,
            "steps": self.steps,
            "skipped": self.skipped,
            "epoch": self._epoch,
            "loops": self._loops_done,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.passes, self.position = int(state["passes"]), int(state["position"])
        self.steps, self.skipped = int(state.get("steps", 0)), int(state.get("skipped", 0))
        self._epoch, self._loops_done = int(state["epoch"]), int(state["loops"])
