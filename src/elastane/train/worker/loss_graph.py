"""Reads from a loss's autograd graph whether it is a sum over the samples of its batch; it computes nothing.

It walks from the loss towards the model and looks at the first reductions it meets: PyTorch's loss functions
remember theirs, ``.sum()`` remembers the shape it was applied to.  Where anything on the way may have divided by the
number of samples (a division, a product with a tensor, an operation it does not know) the answer is no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor

_SUM = 2
"""``torch.nn._reduction``: 0 none, 1 mean, 2 sum."""
_LEAST_LEAVES = 2
"""A sum that reaches fewer parameters may be a penalty on that parameter."""
_MOST_NODES, _MOST_TERMS = 20_000, 400
_CONSTANT = 1 / 8
"""A constant factor below this may be one over the number of samples."""
_PASSING = frozenset(
    {
        "Add",
        "Sub",
        "Rsub",
        "Neg",
        "View",
        "UnsafeView",
        "ReshapeAlias",
        "Squeeze",
        "Unsqueeze",
        "Clone",
        "ToCopy",
        "Stack",
        "Cat",
        "Select",
        "Alias",
    }
)
_ELEMENTWISE = _PASSING | frozenset(
    {
        "Pow",
        "Abs",
        "Exp",
        "Log",
        "Log1P",
        "Sqrt",
        "Clamp",
        "ClampMin",
        "ClampMax",
        "Permute",
        "Transpose",
        "T",
        "MaskedFill",
        "Split",
        "Slice",
    }
)
_MODEL = frozenset(
    {
        "Addmm",
        "Mm",
        "Bmm",
        "Mv",
        "Convolution",
        "LogSoftmax",
        "Softmax",
        "Sigmoid",
        "Tanh",
        "Relu",
        "Gelu",
        "Silu",
        "LeakyRelu",
        "Elu",
        "Softplus",
        "Embedding",
        "NativeBatchNorm",
        "NativeLayerNorm",
        "NativeGroupNorm",
        "NllLoss",
        "NllLoss2D",
        "MseLoss",
        "SmoothL1Loss",
        "HuberLoss",
        "BinaryCrossEntropy",
        "BinaryCrossEntropyWithLogits",
        "SoftMarginLoss",
        "MultiMarginLoss",
    }
)


class _Found(Enum):
    SUM = "sum"
    DOUBTFUL = "a sum, times what may be one over the number of samples"
    OTHER = "a mean, or nobody can tell"
    NOTHING = "no reduction over samples"


@dataclass(frozen=True, slots=True)
class Batch:
    """What is known of the batch that the loss belongs to."""

    samples: int
    factors: tuple[float, ...] = ()
    """Constants that the script multiplies or divides by for another reason: loss scale, accumulation."""


def is_sum(loss: Tensor, batch: Batch) -> bool:
    """Whether every reduction of this loss over samples is a sum, beyond doubt."""
    if loss.grad_fn is None or loss.numel() != 1 or batch.samples < 2:
        return False
    return _Reader(batch).above(loss.grad_fn) is _Found.SUM


class _Reader:
    """One walk through a graph; a node that is reached again is not looked at again."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._above: dict[Any, _Found] = {}
        self._below: dict[Any, _Found] = {}

    def above(self, node: Any) -> _Found:
        """Above the reduction, where the loss is one number."""
        if node not in self._above:
            self._above[node] = _Found.OTHER if len(self._above) > _MOST_TERMS else self._look_above(node)
        return self._above[node]

    def below(self, node: Any) -> _Found:
        """Between a sum over samples and the model: is there anything that may have been one over their number?"""
        if node not in self._below:
            self._below[node] = _Found.OTHER if len(self._below) > _MOST_TERMS else self._look_below(node)
        return self._below[node]

    def _look_above(self, node: Any) -> _Found:
        kind = _kind(node)
        if kind == "AccumulateGrad":
            return _Found.NOTHING
        reduction = getattr(node, "_saved_reduction", None)
        if reduction is not None:
            return self._reduced(node, reduction == _SUM, node._saved_self.shape)
        if kind == "Sum" and not _of_terms(node):
            sizes = node._saved_self_sym_sizes
            if len(_dims(node)) < len(sizes):
                return _Found.OTHER
            return self._reduced(node, _all(node, self.below) is _Found.SUM, sizes)
        if kind in _PASSING or kind == "Sum" or self._constant(node, kind):
            return _all(node, self.above)
        if kind in ("Mul", "Div"):
            found = _all(node, self.above)
            return _Found.DOUBTFUL if found is _Found.SUM else found
        return _Found.OTHER

    def _look_below(self, node: Any) -> _Found:
        kind = _kind(node)
        if kind in _MODEL:
            return _Found.SUM
        if kind == "AccumulateGrad":
            return _Found.NOTHING
        per_sample = kind in ("Sum", "Mean") and 0 not in _dims(node)
        if kind in _ELEMENTWISE or per_sample or self._constant(node, kind):
            return _all(node, self.below)
        return _Found.OTHER

    def _reduced(self, node: Any, summed: bool, shape: Any) -> _Found:
        """A reduction was met; one of a parameter is none over samples."""
        over_samples = any(size and size % self._batch.samples == 0 for size in tuple(shape)[:2])
        if not over_samples or _leaves(node) < _LEAST_LEAVES:
            return _Found.NOTHING
        return _Found.SUM if summed else _Found.OTHER

    def _constant(self, node: Any, kind: str) -> bool:
        """Whether this multiplies or divides by a constant that cannot be the number of samples."""
        given = [getattr(node, name, None) for name in ("_saved_other", "_saved_self")]
        values = [value for value in given if value is not None]
        if kind not in ("Mul", "Div") or len(values) != 1:
            return False
        value = values[0]
        if isinstance(value, Tensor) and value.dim():
            return False
        number = float(value)
        # A number in the script is kept in double precision; what a tensor holds may have been computed from the batch.
        known = not isinstance(value, Tensor) or value.dtype is torch.float64
        return number in self._batch.factors or (known and self._harmless(number, kind))

    def _harmless(self, number: float, kind: str) -> bool:
        factor = abs(number if kind == "Mul" or not number else 1 / number)
        return factor >= max(_CONSTANT, 1.5 / self._batch.samples)


def _all(node: Any, look: Callable[[Any], _Found]) -> _Found:
    """What the branches come to together: one mean outweighs all sums, since nothing can then be advised."""
    found = {look(child) for child in _children(node)}
    ranked = (_Found.OTHER, _Found.SUM, _Found.DOUBTFUL)
    return next((one for one in ranked if one in found), _Found.NOTHING)


def _of_terms(node: Any) -> bool:
    """Whether this adds up a list of losses, or a single number."""
    sizes = node._saved_self_sym_sizes
    return not sizes or any(_kind(child) in ("Stack", "Cat") for child in _children(node))


def _dims(node: Any) -> tuple[int, ...]:
    """The dimensions of a partial sum or mean, counted from the first; all of them if it is not partial."""
    sizes = tuple(node._saved_self_sym_sizes)
    given = getattr(node, "_saved_dim", None)
    # Negative dimensions are kept as 64-bit numbers without a sign.
    signed = [d - 2**64 if d >= 2**63 else d for d in given] if given else list(range(len(sizes)))
    return tuple(d % len(sizes) for d in signed) if sizes else (0,)


def _children(node: Any) -> Iterator[Any]:
    return (child for child, _ in node.next_functions if child is not None)


def _kind(node: Any) -> str:
    return str(node.name()).rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")


def _leaves(node: Any) -> int:
    """How many parameters lie below, as far as it matters."""
    seen, waiting, leaves = {node}, [node], 0
    while waiting and len(seen) < _MOST_NODES and leaves < _LEAST_LEAVES:
        current = waiting.pop()
        leaves += _kind(current) == "AccumulateGrad"
        fresh = [child for child in _children(current) if child not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return leaves
