"""``BackwardWatch`` follows the gradients of one backward pass as they arrive, and says which buckets are complete.

A bucket is complete when all of its gradients have arrived that did so the last time, and all buckets before it are
complete.  What was said too early (another gradient came, or one that had arrived was touched) is found at the end:
the unit is then *stale* as far as it was sent.  A worker sends early only after a few *regular* units in a row, so
scripts that touch gradients every time never pay for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from elastane.train.device import Mark
from elastane.train.reduce.buckets import Bucket
from elastane.train.reduce.gradient_reads import GradientReads, gradient_of
from elastane.train.reduce.gradients import GradientLayout

PATIENCE = 2
"""Regular units in a row before buckets are sent early."""
_SLOWER = 8
"""So much longer is waited after each unit that was stale."""
_LONGEST = 1 << 12

Send = Callable[[Bucket, Sequence[Tensor | None]], None]
"""Sends a complete bucket, given the gradients at its places."""


class BackwardWatch:
    """The hooks on the parameters of one layout; asleep except between ``open`` and ``close``."""

    def __init__(self, layout: GradientLayout, buckets: Sequence[Bucket], send: Send) -> None:
        self.stale = False
        """Whether what was sent of the last unit is not what its gradients are."""
        self._parameters = list(layout.parameters)
        self._device = layout.device
        self._buckets = tuple(buckets)
        self._bucket_of = [0] * layout.count
        for number, bucket in enumerate(buckets):
            for index in bucket.places:
                self._bucket_of[index] = number
        self._send = send
        self._reads = GradientReads(self._parameters)
        self._expected = [True] * layout.count
        self._arrived = [False] * layout.count
        self._seen: list[Tensor | None] = [None] * layout.count
        self._versions = [0] * layout.count
        self._missing: list[int] = []
        self._streams: list[list[torch.Stream]] = []
        self._began: Mark | None = None
        self._home: torch.Stream | None = None
        self._open = self._sending = self._odd = False
        self._next = 0
        self._steady, self._patience = 0, PATIENCE
        hooks = [
            _hooked(parameter, partial(_call, weakref.ref(self), index))
            for index, parameter in enumerate(self._parameters)
        ]
        weakref.finalize(self, _remove, hooks)

    @property
    def steady(self) -> bool:
        """Whether enough regular units have come in a row."""
        return self._steady >= self._patience

    def begin(self) -> None:
        """A step begins, of which nothing has been sent."""
        self.stale = False

    def open(self, *, sending: bool) -> None:
        """A unit's backward pass comes next; ``sending``: complete buckets are sent."""
        count = len(self._parameters)
        self.stale = self._odd = False
        self._open, self._sending, self._next = True, sending, 0
        self._arrived, self._seen, self._versions = [False] * count, [None] * count, [0] * count
        self._missing = [sum(self._expected[i] for i in bucket.places) for bucket in self._buckets]
        self._streams = [[] for _ in self._buckets]
        self._home = self._device.current_stream()
        self._began = self._device.mark() if self._home is not None else None

    def stop(self) -> None:
        """Send nothing more: from now on everything counts as sent."""
        self._sending, self._next = False, len(self._buckets)

    def arrived(self, index: int) -> None:
        """A parameter's gradient is there (or more of it)."""
        if not self._open:
            return
        if not any(self._arrived):
            self._reads.open()
        number, gradient = self._bucket_of[index], gradient_of(self._parameters[index])
        if self._arrived[index] or number < self._next:
            self._odd = True
        if gradient is None or gradient.layout is not torch.strided or gradient.requires_grad:
            self._odd, self._sending = True, False
        if number >= self._next:
            self._seen[index], self._versions[index] = gradient, 0 if gradient is None else gradient._version
        self._note_stream(number)
        if not self._arrived[index]:
            self._arrived[index] = True
            self._missing[number] -= self._expected[index]
        self._send_complete()

    def _note_stream(self, number: int) -> None:
        here = self._device.current_stream()
        if here is not None and here not in self._streams[number]:
            self._streams[number].append(here)

    def _send_complete(self) -> None:
        while self._sending and self._next < len(self._buckets) and not self._missing[self._next]:
            number = self._next
            self._next += 1
            self._come_after(self._streams[number])
            bucket = self._buckets[number]
            self._send(bucket, [self._seen[index] for index in bucket.places])

    def _come_after(self, streams: Sequence[torch.Stream]) -> None:
        """Have the current stream go on behind the gradients, and behind what the step before did to the vector."""
        here = self._device.current_stream()
        if here is None:
            return
        for stream in streams:
            if stream != here:
                here.wait_stream(stream)
        if here != self._home and self._began is not None:
            self._began.hold_back(here)

    def close(self) -> None:
        """The script is done with the unit: see whether what was sent is what there is."""
        self._reads.close()
        if not self._open:
            return
        self._open, self._began = False, None
        odd = self._odd or self._reads.noticed
        self.stale = odd and self._next > 0
        if not any(self._arrived) and not self._next:
            return  # nothing was computed: that says nothing about the next time
        for index, parameter in enumerate(self._parameters):
            gradient, seen = gradient_of(parameter), self._seen[index]
            if gradient is seen and (seen is None or seen._version == self._versions[index]):
                continue
            odd = True
            self.stale = self.stale or self._bucket_of[index] < self._next
        regular = not odd and self._arrived == self._expected
        self._expected = list(self._arrived)
        self._steady = self._steady + 1 if regular else 0
        if self.stale:
            self._patience = min(_LONGEST, self._patience * _SLOWER)
        self._seen = []


def _call(watch: weakref.ref[BackwardWatch], index: int, _parameter: Tensor) -> None:
    found = watch()
    if found is not None:
        found.arrived(index)


def _hooked(parameter: Tensor, call: Callable[[Tensor], None]) -> torch.utils.hooks.RemovableHandle:
    return parameter.register_post_accumulate_grad_hook(call)  # type: ignore[no-any-return, no-untyped-call]


def _remove(hooks: Sequence[torch.utils.hooks.RemovableHandle]) -> None:
    for hook in hooks:
        hook.remove()
