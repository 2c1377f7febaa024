"""Extrapolates two captures at small batches linearly to any batch: sizes, FLOPs, bytes and memory."""

from __future__ import annotations

from dataclasses import replace

from elastane.predict.operators import Memory, Operator, Phase, Shape, StepCapture


def carried_on(small: StepCapture, large: StepCapture, batch: int) -> StepCapture:
    """Extrapolates the step to ``batch`` from the same step at two smaller batches.

    Where the two ran different operators (because control flow depends on data) the larger one is scaled by the
    ratio of batches, except for the optimizer, which does not depend on the batch.
    """
    along = (batch - small.batch) / (large.batch - small.batch)
    pairs = list(zip(small.operators, large.operators, strict=False))
    alike = len(small.operators) == len(large.operators) and all(a.name == b.name for a, b in pairs)
    if alike:
        operators = tuple(_between(a, b, along) for a, b in pairs)
        notes: tuple[str, ...] = ()
    else:
        ratio = batch / large.batch
        operators = tuple(
            each
            if each.phase is Phase.OPTIMIZER
            else replace(each, flops=each.flops * ratio, bytes=each.bytes * ratio)
            for each in large.operators
        )
        notes = ("its operators depend on its data, so other steps may take another time",)
    memory = _memory(small.memory, large.memory, along)
    return StepCapture(operators, batch, large.calls, memory, large.method, notes)


def _between(small: Operator, large: Operator, along: float) -> Operator:
    return replace(
        large,
        flops=_line(small.flops, large.flops, along),
        bytes=_line(small.bytes, large.bytes, along),
        dims=_shape(small.dims, large.dims, along),
        inputs=_shapes(small.inputs, large.inputs, along),
        outputs=_shapes(small.outputs, large.outputs, along),
    )


def _line(a: float, b: float, along: float) -> float:
    """Extrapolates linearly, to at least 1: a line through two small sizes may fall below 0."""
    return max(a + (b - a) * along, 1.0)


def _shape(small: Shape, large: Shape, along: float) -> Shape:
    if len(small) != len(large):
        return large
    return tuple(a if a == b else max(round(a + (b - a) * along), 0) for a, b in zip(small, large, strict=True))


def _shapes(small: tuple[Shape, ...], large: tuple[Shape, ...], along: float) -> tuple[Shape, ...]:
    if len(small) != len(large):
        return large
    return tuple(_shape(a, b, along) for a, b in zip(small, large, strict=True))


def _memory(small: Memory, large: Memory, along: float) -> Memory:
    def line(name: str) -> int:
        a, b = int(getattr(small, name)), int(getattr(large, name))
        return max(round(a + (b - a) * along), 0)

    return replace(large, activations=line("activations"), largest_output=line("largest_output"))
