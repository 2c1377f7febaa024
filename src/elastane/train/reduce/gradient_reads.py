"""``GradientReads`` notices that somebody reads or sets ``p.grad`` of certain parameters, for as long as it is open.

Once a gradient is on its way to the other workers, a script that changes it changes nothing any more.  Most changes
show in the tensor (another one, another version), but not those through ``p.grad.data``.  Whoever wants to make one has
to ask for ``p.grad`` first, and that is noticed: for so long, and no longer, ``Tensor.grad`` is the library's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_RAW: Any = torch._C.TensorBase.grad


def gradient_of(tensor: Tensor) -> Tensor | None:
    """Reads ``tensor.grad`` without being noticed."""
    found: Tensor | None = _RAW.__get__(tensor)
    return found


class GradientReads:
    """Those of some parameters."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.noticed = False
        """Whether one was read or set since ``open``."""
        self._ids = frozenset(map(id, parameters))

    def open(self) -> None:
        """From now on they are noticed."""
        self.noticed = False
        with _lock:
            if self not in _watching:
                _watching.append(self)
                torch.Tensor.grad = _NOTICING  # type: ignore[assignment]

    def close(self) -> None:
        """They are not any more; harmless to repeat."""
        with _lock:
            if self in _watching:
                _watching.remove(self)
                if not _watching:
                    del torch.Tensor.grad

    def look(self, tensor: Tensor) -> None:
        """Somebody has asked for this tensor's gradient."""
        self.noticed = self.noticed or id(tensor) in self._ids


_watching: list[GradientReads] = []
_lock = threading.Lock()
_unnoticed = 0


@contextmanager
def harmless_reads() -> Iterator[None]:
    """What the library itself reads inside changes nothing."""
    global _unnoticed
    _unnoticed += 1
    try:
        yield
    finally:
        _unnoticed -= 1


def _notice(tensor: Tensor) -> None:
    if not _unnoticed:
        for each in _watching:
            each.look(tensor)


def _get(tensor: Tensor) -> Any:
    _notice(tensor)
    return _RAW.__get__(tensor)


def _set(tensor: Tensor, value: Any) -> None:
    _notice(tensor)
    _RAW.__set__(tensor, value)


def _delete(tensor: Tensor) -> None:
    _notice(tensor)
    _RAW.__delete__(tensor)


_NOTICING = property(_get, _set, _delete)
