"""Random numbers of one sample: by (seed, pass, index), whoever reads it and however often.

``sample_generator`` is what a data set should draw from.  Code that draws from the global generators instead
is made repeatable by ``seed_samples=True``, which seeds them before each sample and puts them back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch

from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import preserved, seed_all
from elastane.train.errors import TrainError


class _Reading(threading.local):
    """What this thread is reading: set for a batch and moved on for each sample."""

    origin: tuple[int, int] | None = None
    index: int | None = None
    generator: torch.Generator | None = None


_reading = _Reading()


def sample_generator(index: int | None = None) -> torch.Generator:
    """The generator of the sample being read; call it inside ``__getitem__`` of a data set.

    Repeated calls for one sample continue the same stream.  ``__getitems__`` reads many samples at once and
    must say which ``index`` it means; that generator starts anew with each call.
    """
    if _reading.origin is None:
        raise TrainError(
            "sample_generator() has no sample to belong to: call it inside __getitem__ of a data set"
        )
    if index is not None:
        return _generator_of(*_reading.origin, index)
    if _reading.index is None:
        raise TrainError("several samples are read at once: call sample_generator(index) inside __getitems__")
    if _reading.generator is None:
        _reading.generator = _generator_of(*_reading.origin, _reading.index)
    return _reading.generator


@contextmanager
def sample_rng(seed: int, pass_index: int, seed_globals: bool = False) -> Iterator[Callable[[int], None]]:
    """Samples are read inside; call the result with the index before each of them."""
    before = (_reading.origin, _reading.index, _reading.generator)
    _reading.origin, _reading.index, _reading.generator = (seed, pass_index), None, None

    def begin(index: int) -> None:
        _reading.index, _reading.generator = index, None
        if seed_globals:
            seed_all(key_of(Purpose.SAMPLE, seed, pass_index, index))

    try:
        with preserved() if seed_globals else nullcontext():
            yield begin
    finally:
        _reading.origin, _reading.index, _reading.generator = before


def _generator_of(seed: int, pass_index: int, index: int) -> torch.Generator:
    return torch.Generator().manual_seed(key_of(Purpose.SAMPLE, seed, pass_index, index))
