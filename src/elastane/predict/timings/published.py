"""Published layer timings as operators of our own, one function per layout of a row.

Rows of Justus et al. are whole layers, forward only or with backward and an optimizer, whose input and target are
trained as well; ``dims`` carry on with the flags of that.  The flags are features, so a model learns what they cost.
Rows of NeuSight are single matrix products in fp32, forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elastane.predict.costs.contract import Timing
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase

STATE_PASSES = (0, 3, 7, 5, 5, 7, 7)
"""Passes over the parameters that an update makes, by code of the optimizer."""

Row = Mapping[str, str]


def _flags(row: Row) -> tuple[int, ...]:
    optimizer, activation = int(row["optimizer"]), int(row["activation_fct"])
    return (
        *(int(optimizer == code) for code in range(7)),
        *(int(activation == code) for code in range(4)),
    )


@dataclass(frozen=True, slots=True)
class ConvolutionRow:
    """The sizes of a convolution layer of Justus et al.; words are counts of numbers, not bytes."""

    dims: tuple[int, ...]
    """As ``capturing.rules`` has them, forward."""
    flops: float
    data: int
    weights: int
    result: int
    optimizer: int

    @classmethod
    def read(cls, row: Row) -> ConvolutionRow:
        """From a row of the file."""
        n, size, kernel = (int(row[key]) for key in ("batchsize", "matsize", "kernelsize"))
        c_in, c_out, stride = (int(row[key]) for key in ("channels_in", "channels_out", "strides"))
        out = -(-size // stride) if int(row["padding"]) else max((size - kernel) // stride + 1, 1)
        return cls(
            dims=(n, c_in, c_out, size * size, out * out, kernel * kernel, stride, 1),
            flops=2.0 * n * out * out * kernel * kernel * c_in * c_out,
            data=n * size * size * c_in,
            weights=kernel * kernel * c_in * c_out,
            result=n * out * out * c_out,
            optimizer=int(row["optimizer"]),
        )

    @property
    def words(self) -> int:
        """Of all three tensors."""
        return self.data + self.weights + self.result


def convolution(row: Row, device: Device) -> Timing:
    """Builds the operators of one measured convolution layer."""
    layer = ConvolutionRow.read(row)
    flops, moved = layer.flops, layer.words
    if layer.optimizer:
        flops, moved = 3.0 * flops, (3 + STATE_PASSES[layer.optimizer]) * moved
    dims = (*layer.dims, int(row["padding"]), int(row["use_bias"]), *_flags(row))
    operator = Operator("layer::convolution", Kind.CONVOLUTION, Phase.FORWARD, flops, 4.0 * moved, dims)
    return Timing(operator, device, seconds(row))


def dense(row: Row, device: Device) -> Timing:
    """A fully connected layer."""
    n, inner, out = (int(row[key]) for key in ("batchsize", "dim_input", "dim_output"))
    optimizer = int(row["optimizer"])
    flops, moved = 2.0 * n * inner * out, n * inner + inner * out + n * out
    if optimizer:
        flops, moved = 3.0 * flops, (3 + STATE_PASSES[optimizer]) * moved
    dims = (1, n, out, inner, *_flags(row))
    operator = Operator("layer::dense", Kind.MATMUL, Phase.FORWARD, flops, 4.0 * moved, dims)
    return Timing(operator, device, seconds(row))


def product(row: Row, device: Device) -> Timing:
    """One matrix product, or a batch of them."""
    b, m, n, k = (int(float(row[key])) for key in ("b", "m", "n", "k"))
    flops, moved = 2.0 * b * m * n * k, 4.0 * b * (m * k + k * n + m * n)
    operator = Operator("layer::product", Kind.MATMUL, Phase.FORWARD, flops, moved, (b, m, n, k))
    return Timing(operator, device, seconds(row))


def seconds(row: Row) -> float:
    """Reads the measured time of a row, in seconds."""
    return float(row["time_ms"]) / 1e3


_COMMON = frozenset({"batchsize", "optimizer", "activation_fct", "time_ms"})
_SIZES = frozenset({"channels_in", "channels_out", "kernelsize", "matsize", "padding", "strides", "use_bias"})

LAYOUTS: tuple[tuple[frozenset[str], Callable[[Row, Device], Timing]], ...] = (
    (_COMMON | _SIZES, convolution),
    (_COMMON | {"dim_input", "dim_output"}, dense),
    (frozenset({"time_ms", "b", "m", "n", "k"}), product),
)
"""Columns by which a layout is known, and how its rows are read."""
