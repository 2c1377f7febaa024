"""A way around one of PyTorch's clipping functions, open only while a loop body runs.

A script may have said ``from torch.nn.utils import clip_grad_norm_`` long before, so putting another function in the
module would come too late.  PyTorch's functions are thin wrappers (``no_grad``) around the real ones: what the
wrapper calls is exchanged, and put back when the body ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CellType
from typing import Any

import torch.nn.utils.clip_grad

from elastane.train.errors import TrainError


class Detour:
    """One function, by its name; ``route`` is called with the original and what the script gave."""

    def __init__(self, name: str, route: Callable[..., Any]) -> None:
        self._cell = _cell(name)
        original = self._cell.cell_contents
        # Another job of this process may have a detour open, and it ends there.
        self._original = original.args[0] if isinstance(original, partial) else original
        self._route = partial(route, self._original)

    def open(self) -> None:
        """Calls take the detour."""
        self._cell.cell_contents = self._route

    def close(self) -> None:
        """Calls go where they always went."""
        if self._cell.cell_contents is self._route:
            self._cell.cell_contents = self._original


def _cell(name: str) -> CellType:
    """Where the wrapper of this name keeps what it wraps."""
    wrapper = getattr(torch.nn.utils.clip_grad, name, None)
    cells: tuple[CellType, ...] = getattr(wrapper, "__closure__", None) or ()
    if len(cells) != 1 or not callable(cells[0].cell_contents):
        raise TrainError(f"this version of PyTorch ({torch.__version__}) has no {name} that the library knows")
    return cells[0]
