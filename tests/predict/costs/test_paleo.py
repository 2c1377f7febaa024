"""PALEO's own figures, found again from its formulas: matrix-product convolutions on a TITAN X, nothing lost.

Its bandwidths are in units of 2³⁰ bytes, and inputs are read with their padding.  33.2 ms is all that is known of the
first figure, so it cannot be found more closely than that.
"""

from __future__ import annotations

import pytest

from elastane.predict.costs.simple import Paleo
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase

TITAN_X = Device("titan-x", 12.0, 336.5 * 2**30 / 1e9, {"fp32": 6.144}, 0.0, "PALEO", "2017-01-01")
BATCH = 128


def layer(kind: Kind, flops: float, words: float) -> Operator:
    return Operator("paleo", kind, Phase.FORWARD, flops, 4.0 * words, (1, 1, 1, 1, 1, 1, 1, 1))


def convolution(size: int, c_in: int, c_out: int, kernel: int, out: int) -> Operator:
    padded = size + kernel - 1 if out == size else size
    words = BATCH * padded**2 * c_in + kernel**2 * c_in * c_out + BATCH * out**2 * c_out
    return layer(Kind.CONVOLUTION, 2.0 * kernel**2 * c_in * out**2 * c_out * BATCH, words)


def pool(size: int, channels: int, kernel: int, out: int) -> Operator:
    return layer(Kind.POOL, 2.0 * kernel**2 * channels * out**2 * BATCH, BATCH * channels * (size**2 + out**2))


def dropout(size: int) -> Operator:
    return layer(Kind.RANDOM, float(BATCH * size), 2 * BATCH * size)


def alexnet() -> list[Operator]:
    return [
        convolution(224, 3, 64, 11, 54),
        pool(54, 64, 3, 26),
        convolution(26, 64, 192, 5, 26),
        pool(26, 192, 3, 12),
        convolution(12, 192, 384, 3, 12),
        convolution(12, 384, 384, 3, 12),
        convolution(12, 384, 256, 3, 12),
        pool(12, 256, 3, 5),
        convolution(5, 256, 4096, 5, 1),
        dropout(4096),
        convolution(1, 4096, 4096, 1, 1),
        dropout(4096),
        convolution(1, 4096, 1000, 1, 1),
    ]


def vgg16() -> list[Operator]:
    found, size, channels = [], 224, 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            found.append(convolution(size, channels, width, 3, size))
            channels = width
        found.append(pool(size, width, 2, size // 2))
        size //= 2
    found += [convolution(7, 512, 4096, 7, 1), dropout(4096), convolution(1, 4096, 4096, 1, 1), dropout(4096)]
    return [*found, convolution(1, 4096, 1000, 1, 1)]


@pytest.mark.parametrize(("network", "milliseconds", "off"), [(alexnet, 33.2, 2e-3), (vgg16, 690.1, 1e-3)])
def test_forward_times_are_those_that_paleo_prints(network: object, milliseconds: float, off: float) -> None:
    times = Paleo(percent_of_peak=1.0).times(network(), TITAN_X)  # type: ignore[operator]
    assert 1e3 * times.total == pytest.approx(milliseconds, rel=off)
