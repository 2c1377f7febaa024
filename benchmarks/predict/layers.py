"""Published layer timings as operators of our own: what ``../shared/data/layers`` holds, by card.

Rows of Justus et al. are whole layers, forward only or with backward and an optimizer, whose input and target are
trained as well; ``dims`` carry on with the flags of that.  The flags are features, so the model learns what they cost.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import shared_data
from elastane.predict.costs.contract import Timing
from elastane.predict.devices import Device, find
from elastane.predict.operators import Kind, Operator, Phase

CARDS = ("1080ti", "k40", "k80", "m60", "p100")
_STATE_PASSES = (0, 3, 7, 5, 5, 7, 7)
"""Passes over the parameters that an update makes, by code of the optimizer."""


def convolutions(card: str) -> list[Timing]:
    """Convolution layers on a card."""
    return [_convolution(row, find(card)) for row in _rows(f"convolution_{card}.csv.gz")]


def denses(card: str) -> list[Timing]:
    """Fully connected layers on a card."""
    return [_dense(row, find(card)) for row in _rows(f"dense_{card}.csv.gz")]


def modern(name: str) -> list[Timing]:
    """``linear`` or ``bmm``: forward matrix products in fp32 on five cards."""
    rows = _rows(f"modern_{name}.csv.gz")
    return [_product(row) for row in rows]


def _rows(name: str) -> Sequence[dict[str, str]]:
    path: Path = shared_data("data", "layers", name)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _flags(row: dict[str, str]) -> tuple[int, ...]:
    optimizer, activation = int(row["optimizer"]), int(row["activation_fct"])
    return (
        *(int(optimizer == code) for code in range(7)),
        *(int(activation == code) for code in range(4)),
    )


def _convolution(row: dict[str, str], device: Device) -> Timing:
    n, size, kernel = (int(row[key]) for key in ("batchsize", "matsize", "kernelsize"))
    c_in, c_out, stride = (int(row[key]) for key in ("channels_in", "channels_out", "strides"))
    same = int(row["padding"])
    out = -(-size // stride) if same else max((size - kernel) // stride + 1, 1)
    optimizer = int(row["optimizer"])
    flops = 2.0 * n * out * out * kernel * kernel * c_in * c_out
    data, weights, result = n * size * size * c_in, kernel * kernel * c_in * c_out, n * out * out * c_out
    passes = _STATE_PASSES[optimizer]
    moved = data + weights + result
    if optimizer:
        flops *= 3.0
        moved = 3 * moved + passes * (data + weights + result)
    dims = (n, c_in, c_out, size * size, out * out, kernel * kernel, stride, 1, same, int(row["use_bias"]))
    operator = Operator(
        "layer::convolution", Kind.CONVOLUTION, Phase.FORWARD, flops, 4.0 * moved, (*dims, *_flags(row))
    )
    return Timing(operator, device, float(row["time_ms"]) / 1e3)


def _dense(row: dict[str, str], device: Device) -> Timing:
    n, inner, out = (int(row[key]) for key in ("batchsize", "dim_input", "dim_output"))
    optimizer = int(row["optimizer"])
    flops, moved = 2.0 * n * inner * out, n * inner + inner * out + n * out
    if optimizer:
        flops, moved = 3.0 * flops, (3 + _STATE_PASSES[optimizer]) * moved
    dims = (1, n, out, inner, *_flags(row))
    operator = Operator("layer::dense", Kind.MATMUL, Phase.FORWARD, flops, 4.0 * moved, dims)
    return Timing(operator, device, float(row["time_ms"]) / 1e3)


def _product(row: dict[str, str]) -> Timing:
    b, m, n, k = (int(float(row[key])) for key in ("b", "m", "n", "k"))
    flops, moved = 2.0 * b * m * n * k, 4.0 * b * (m * k + k * n + m * n)
    operator = Operator("layer::product", Kind.MATMUL, Phase.FORWARD, flops, moved, (b, m, n, k))
    return Timing(operator, find(row["device"]), float(row["time_ms"]) / 1e3)
