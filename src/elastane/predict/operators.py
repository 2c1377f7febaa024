"""Describes one training step as operators with their shapes, floating-point operations and bytes.

These are plain values: they say what has to be computed, not how long it takes (that is ``costs``) and not how they
were captured (that is ``capturing``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

Shape = tuple[int, ...]


class Kind(Enum):
    """The kind of an operator: those of one kind cost time for the same reason, and share a cost model."""

    CONVOLUTION = "convolution"
    CONVOLUTION_BACKWARD = "convolution_backward"
    MATMUL = "matmul"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    NORM = "norm"
    POOL = "pool"
    SOFTMAX = "softmax"
    EMBEDDING = "embedding"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    COPY = "copy"
    RANDOM = "random"
    UNKNOWN = "unknown"

    @property
    def arithmetic(self) -> bool:
        """Whether tensor cores and the like help: these kinds run at the peak of a precision."""
        return self in _ARITHMETIC


_ARITHMETIC = {Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD, Kind.MATMUL, Kind.ATTENTION, Kind.RECURRENT}


class Phase(Enum):
    """The part of a step an operator belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True)
class Operator:
    """One call of one operator.

    ``dims`` are the sizes that matter for its kind, see ``capturing.rules``; ``bytes`` are those read and written once
    each; ``flops`` counts a multiplication and an addition as two.
    """

    name: str
    kind: Kind
    phase: Phase
    flops: float
    bytes: float
    dims: Shape
    module: str = ""
    inputs: tuple[Shape, ...] = ()
    outputs: tuple[Shape, ...] = ()
    dtype: str = "float32"


class Method(Enum):
    """How a step was captured."""

    FAKE = "without computing anything"
    REAL = "by running small real steps"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one worker: parameters, their gradients, optimizer state, and what backward needs of forward."""

    parameters: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    largest_output: int = 0

    @property
    def total(self) -> int:
        """The sum of all bytes; the largest output stands for the temporaries of the operator under way."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.largest_output


@dataclass(frozen=True, slots=True)
class StepCapture:
    """One training step at a batch size.  ``calls`` counts what was dispatched, also what only makes empty tensors."""

    operators: tuple[Operator, ...]
    batch: int
    calls: int
    memory: Memory
    method: Method = Method.FAKE
    notes: tuple[str, ...] = field(default=())

    def flops(self, phase: Phase | None = None) -> float:
        """Returns the floating-point operations of a phase, or of the step."""
        return sum(each.flops for each in self.operators if phase in (None, each.phase))

    def bytes(self, phase: Phase | None = None) -> float:
        """Returns the bytes moved in a phase, or in the step."""
        return sum(each.bytes for each in self.operators if phase in (None, each.phase))

    @property
    def unknown(self) -> tuple[tuple[str, int], ...]:
        """The operators without a rule, with their number of calls."""
        names = Counter(each.name for each in self.operators if each.kind is Kind.UNKNOWN)
        return tuple(sorted(names.items()))

    @property
    def unknown_share(self) -> float:
        """The fraction of all bytes that unknown operators move."""
        unknown = sum(each.bytes for each in self.operators if each.kind is Kind.UNKNOWN)
        return unknown / max(self.bytes(), 1.0)


@lru_cache(maxsize=4)
def together(operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """Joins optimizer operators of one name into one call over all parameters.

    On an accelerator PyTorch updates all parameters by one launch per operation ("foreach"); the capture, made on
    the host, sees one call per parameter.
    """
    kept, joined = [], dict[str, Operator]()
    for each in operators:
        if each.phase is not Phase.OPTIMIZER:
            kept.append(each)
        elif each.name in joined:
            joined[each.name] = _sum(joined[each.name], each)
        else:
            joined[each.name] = each
    return (*kept, *joined.values())


def _sum(one: Operator, other: Operator) -> Operator:
    return Operator(
        one.name,
        one.kind,
        one.phase,
        one.flops + other.flops,
        one.bytes + other.bytes,
        tuple(a + b for a, b in zip(one.dims, other.dims, strict=False)),
        dtype=one.dtype,
    )
