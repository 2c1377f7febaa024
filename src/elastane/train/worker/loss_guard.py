"""Notices a loss that is a sum over samples and was not declared as one.

Parts of a batch have different numbers of samples on different numbers of workers, so the gradient of an undeclared
sum depends on them.  The graph of the loss is looked at once, in the first loop body of a worker, when the script
calls ``backward``; for that long, and no longer, ``Tensor.backward`` is the library's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from elastane.train.worker.loss_graph import Batch, is_sum

WARNING = (
    "the loss looks like the sum over the samples of a batch, so the result depends on the number of workers; "
    'say job.model(model, loss="sum"), or loss="mean" if it is their mean (ElasticTrainer, ElasticStrategy and '
    "Accelerator take loss=, too)"
)

_BEHIND = "_elastane_behind"
"""Where a function of ours keeps the one it stands in front of."""


class LossGuard:
    """One look at the first loss of one worker."""

    def __init__(
        self, factors: Callable[[], tuple[float, ...]], warn: Callable[[str], None], *, wanted: bool = True
    ) -> None:
        self.wanted = wanted
        """Until there has been a look, or the script has said what its loss is."""
        self._factors = factors
        self._warn = warn
        self._original: Callable[..., Any] | None = None
        self._installed: Callable[..., Any] | None = None
        self._looked = False

    def open(self, samples: int) -> None:
        """A loop body begins with so many samples."""
        if not self.wanted or samples < 2:
            return
        present: Callable[..., None] = torch.Tensor.backward
        # Another job of this process may be looking, too, and its look ends here.
        self._original = original = getattr(present, _BEHIND, present)

        def backward(loss: torch.Tensor, *arguments: Any, **settings: Any) -> None:
            self._look(loss, samples)
            original(loss, *arguments, **settings)

        setattr(backward, _BEHIND, original)
        self._installed = backward
        torch.Tensor.backward = backward  # type: ignore[method-assign,assignment]

    def close(self) -> None:
        """The body has ended."""
        if self._original is not None:
            if torch.Tensor.backward is self._installed:
                torch.Tensor.backward = self._original  # type: ignore[method-assign]
            self._original = self._installed = None
            self.wanted = self.wanted and not self._looked

    def _look(self, loss: torch.Tensor, samples: int) -> None:
        self._looked = True
        try:
            suspicious = self.wanted and is_sum(loss, Batch(samples, self._factors()))
        except (
            AttributeError,
            RuntimeError,
            TypeError,
        ):  # a graph of another kind than expected: nobody can tell
            return
        if suspicious:
            self.wanted = False
            self._warn(WARNING)
