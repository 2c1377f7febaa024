"""Converts published layer timings to operators of our own, one function per layout of a row.

Rows of Justus et al. are whole layers, forward only or with backward and an optimizer, whose input and target are
trained as well; ``dims`` carry on with the flags of that.  The flags are features, so a model learns what they cost.
Rows of NeuSight are single matrix products in fp32, forward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from elastane.predict.costs.contract import Timing
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase

STATE_PASSES = (0, 3, 7, 5, 5, 7, 7)
"""Passes over the parameters that an update makes, by code of the optimizer."""

Row = Mapping[str, str]


_MOST = 10**9


def _sizes(row: Row, *names: str, least: int = 1, most: int = _MOST) -> Iterator[int]:
    """Yields whole numbers in range from columns of a row; a ``ValueError`` names the column of a bad one."""
    for name in names:
        number = _number(row[name])
        if not (least <= number <= most and number.is_integer()):
            raise ValueError(f"{name} is {row[name]!r:.40}, not a whole number from {least} to {most:,}")
        yield int(number)


def _number(text: str | None) -> float:
    """Parses a cell as a number; NaN where it is none."""
    try:
        return float(text or "")
    except ValueError:
        return math.nan


def _optimizer(row: Row) -> int:
    (code,) = _sizes(row, "optimizer", least=0, most=len(STATE_PASSES) - 1)
    return code


def _flags(row: Row) -> tuple[int, ...]:
    optimizer, (activation,) = _optimizer(row), _sizes(row, "activation_fct", least=0, most=3)
    return (
        *(int(optimizer == code) for code in range(7)),
        *(int(activation == code) for code in range(4)),
    )


@dataclass(frozen=True, slots=True)
class ConvolutionRow:
    """The sizes of a convolution layer of Justus et al.; words are counts of numbers, not bytes."""

    dims: tuple[int, ...]
    """The sizes as in ``capturing.rules``, of the forward operator."""
    flops: float
    data: int
    weights: int
    result: int
    optimizer: int

    @classmethod
    def read(cls, row: Row) -> ConvolutionRow:
        """Reads the sizes from a row of the file."""
        n, size, kernel = _sizes(row, "batchsize", "matsize", "kernelsize")
        c_in, c_out, stride = _sizes(row, "channels_in", "channels_out", "strides")
        (padded,) = _sizes(row, "padding", least=0, most=1)
        out = -(-size // stride) if padded else max((size - kernel) // stride + 1, 1)
        return cls(
            dims=(n, c_in, c_out, size * size, out * out, kernel * kernel, stride, 1),
            flops=2.0 * n * out * out * kernel * kernel * c_in * c_out,
            data=n * size * size * c_in,
            weights=kernel * kernel * c_in * c_out,
            result=n * out * out * c_out,
            optimizer=_optimizer(row),
        )

    @property
    def words(self) -> int:
        """The count of numbers in all three tensors."""
        return self.data + self.weights + self.result


def convolution(row: Row, device: Device) -> Timing:
    """Builds the operator of one measured convolution layer."""
    layer = ConvolutionRow.read(row)
    flops, moved = layer.flops, layer.words
    if layer.optimizer:
        flops, moved = 3.0 * flops, (3 + STATE_PASSES[layer.optimizer]) * moved
    dims = (*layer.dims, *_sizes(row, "padding", "use_bias", least=0, most=1), *_flags(row))
    operator = Operator("layer::convolution", Kind.CONVOLUTION, Phase.FORWARD, flops, 4.0 * moved, dims)
    return Timing(operator, device, seconds(row))


def dense(row: Row, device: Device) -> Timing:
    """Builds the operator of one measured fully connected layer."""
    n, inner, out = _sizes(row, "batchsize", "dim_input", "dim_output")
    optimizer = _optimizer(row)
    flops, moved = 2.0 * n * inner * out, n * inner + inner * out + n * out
    if optimizer:
        flops, moved = 3.0 * flops, (3 + STATE_PASSES[optimizer]) * moved
    dims = (1, n, out, inner, *_flags(row))
    operator = Operator("layer::dense", Kind.MATMUL, Phase.FORWARD, flops, 4.0 * moved, dims)
    return Timing(operator, device, seconds(row))


def product(row: Row, device: Device) -> Timing:
    """Builds the operator of one measured matrix product, or of a batch of them."""
    b, m, n, k = _sizes(row, "b", "m", "n", "k")
    flops, moved = 2.0 * b * m * n * k, 4.0 * b * (m * k + k * n + m * n)
    operator = Operator("layer::product", Kind.MATMUL, Phase.FORWARD, flops, moved, (b, m, n, k))
    return Timing(operator, device, seconds(row))


def seconds(row: Row) -> float:
    """Reads the measured time of a row, in seconds."""
    return _number(row["time_ms"]) / 1e3


_COMMON = frozenset({"batchsize", "optimizer", "activation_fct", "time_ms"})
_SIZES = frozenset({"channels_in", "channels_out", "kernelsize", "matsize", "padding", "strides", "use_bias"})

LAYOUTS: tuple[tuple[frozenset[str], Callable[[Row, Device], Timing]], ...] = (
    (_COMMON | _SIZES, convolution),
    (_COMMON | {"dim_input", "dim_output"}, dense),
    (frozenset({"time_ms", "b", "m", "n", "k"}), product),
)
"""Columns by which a layout is known, and how its rows are read."""
