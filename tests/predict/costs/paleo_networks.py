"""The three networks PALEO's own figures are about, layer by layer, by its formulas.

A convolution and its two gradients are matrix products.  The gradient of the input convolves the gradient of the
output, spread to the stride, with the kernel; the gradient of the kernel convolves the input with the same spread
gradient, whose holes cost nothing.  Inputs are read with their padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elastane.predict.operators import Kind, Operator, Phase


def operator(kind: Kind, flops: float, words: float, phase: Phase = Phase.FORWARD) -> Operator:
    return Operator("paleo", kind, phase, flops, 4.0 * words, (1, 1, 1, 1, 1, 1, 1, 1))


@dataclass(frozen=True)
class Convolution:
    batch: int
    size: int
    c_in: int
    c_out: int
    kernel: tuple[int, int]
    stride: int = 1
    same: bool = True

    @property
    def weights(self) -> int:
        return self.kernel[0] * self.kernel[1] * self.c_in * self.c_out

    @property
    def out(self) -> int:
        least = self.size if self.same else self.size - self.kernel[0] + 1
        return -(-least // self.stride)

    @property
    def flops(self) -> float:
        return 2.0 * self.weights * self.out**2 * self.batch

    def forward(self) -> Operator:
        padded = 1
        for side in self.kernel:
            padding = ((self.out - 1) * self.stride + side - self.size) // 2 if self.same else 0
            padded *= self.size + 2 * padding
        words = self.batch * padded * self.c_in + self.weights + self.batch * self.out**2 * self.c_out
        return operator(Kind.CONVOLUTION, self.flops, words)

    def backward(self) -> tuple[Operator, Operator]:
        (high, above), (wide, beside) = (self._spread(side) for side in self.kernel)
        holes = 1.0 - self.out**2 / (high * wide)
        given, wanted = self.batch * self.out**2 * self.c_out, self.batch * self.size**2 * self.c_in
        to_input = 2.0 * self.weights * self.size**2 * self.batch + (2.0 * given if holes else 0.0)
        spread = self.batch * (high + 2 * above) * (wide + 2 * beside) * self.c_out
        above, beside = (above, beside) if self.same else (0, 0)
        padded = self.batch * (self.size + 2 * above) * (self.size + 2 * beside) * self.c_in
        return (
            operator(Kind.CONVOLUTION, to_input, spread + self.weights + wanted, Phase.BACKWARD),
            operator(Kind.CONVOLUTION, self.flops, padded + given + self.weights, Phase.BACKWARD),
        )

    def _spread(self, side: int) -> tuple[int, int]:
        """The side of the spread gradient, and its padding; one longer where the padding would be uneven."""
        spread = (self.out - 1) * self.stride + 1
        ahead = ((self.out - 1) * self.stride + side - self.size) // 2 if self.same else 0
        before = side - 1 - ahead
        after = self.size + side - 1 - spread - before
        return spread + (abs(before - after) == 1), min(before, after)


@dataclass(frozen=True)
class Pool:
    batch: int
    size: int
    channels: int
    kernel: int
    out: int
    weights: int = 0

    def forward(self) -> Operator:
        flops = 2.0 * self.kernel**2 * self.channels * self.out**2 * self.batch
        return operator(Kind.POOL, flops, self.batch * self.channels * (self.size**2 + self.out**2))

    def backward(self) -> tuple[Operator, ...]:
        return (self.forward(),)


@dataclass(frozen=True)
class Dropout:
    elements: int
    weights: int = 0

    def forward(self) -> Operator:
        return operator(Kind.RANDOM, float(self.elements), 2 * self.elements)

    def backward(self) -> tuple[Operator, ...]:
        return (self.forward(),)


Layer = Convolution | Pool | Dropout


def alexnet(batch: int = 128) -> Iterator[Layer]:
    yield Convolution(batch, 224, 3, 64, (11, 11), 4, same=False)
    yield Pool(batch, 54, 64, 3, 26)
    yield Convolution(batch, 26, 64, 192, (5, 5))
    yield Pool(batch, 26, 192, 3, 12)
    for c_in, c_out in ((192, 384), (384, 384), (384, 256)):
        yield Convolution(batch, 12, c_in, c_out, (3, 3))
    yield Pool(batch, 12, 256, 3, 5)
    yield from _head(batch, 5, 256)


def vgg16(batch: int = 128) -> Iterator[Layer]:
    size, channels = 224, 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            yield Convolution(batch, size, channels, width, (3, 3))
            channels = width
        yield Pool(batch, size, width, 2, size // 2)
        size //= 2
    yield from _head(batch, 7, 512)


def _head(batch: int, size: int, channels: int) -> Iterator[Layer]:
    yield Convolution(batch, size, channels, 4096, (size, size), same=False)
    yield Dropout(batch * 4096)
    yield Convolution(batch, 1, 4096, 4096, (1, 1))
    yield Dropout(batch * 4096)
    yield Convolution(batch, 1, 4096, 1000, (1, 1))


ONE, LONG, HIGH = (1, 1), (1, 7), (7, 1)
"""Kernels."""

Branch = tuple[tuple[tuple[int, int], int], ...]
"""Kernels and channels, one after the other; all keep the size."""


def _branches(batch: int, size: int, c_in: int, *branches: Branch) -> Iterator[Layer]:
    for branch in branches:
        channels = c_in
        for kernel, wider in branch:
            yield Convolution(batch, size, channels, wider, kernel)
            channels = wider


def _pooled(batch: int, size: int, c_in: int, wider: int) -> Iterator[Layer]:
    yield Pool(batch, size, c_in, 3, size)
    yield Convolution(batch, size, c_in, wider, ONE)


def inception(batch: int = 32) -> Iterator[Layer]:
    yield Convolution(batch, 299, 3, 32, (3, 3), 2, same=False)
    yield Convolution(batch, 149, 32, 32, (3, 3), same=False)
    yield Convolution(batch, 147, 32, 64, (3, 3))
    yield Pool(batch, 147, 64, 3, 73)
    yield Convolution(batch, 73, 64, 80, ONE, same=False)
    yield Convolution(batch, 73, 80, 192, (3, 3), same=False)
    yield Pool(batch, 71, 192, 3, 35)
    for c_in, last in ((192, 32), (256, 64), (288, 64)):
        two, three = ((ONE, 48), ((5, 5), 64)), ((ONE, 64), ((3, 3), 96), ((3, 3), 96))
        yield from _branches(batch, 35, c_in, ((ONE, 64),), two, three)
        yield from _pooled(batch, 35, c_in, last)
    yield Convolution(batch, 35, 288, 384, (3, 3), 2, same=False)
    yield Convolution(batch, 35, 288, 64, ONE)
    yield Convolution(batch, 35, 64, 96, (3, 3), 2, same=False)
    yield Pool(batch, 35, 288, 3, 17)
    for width in (128, 160, 160, 192):
        two = ((ONE, width), (LONG, width), (HIGH, 192))
        three = ((ONE, width), (HIGH, width), (LONG, width), (HIGH, width), (LONG, 192))
        yield from _branches(batch, 17, 768, ((ONE, 192),), two, three)
        yield from _pooled(batch, 17, 768, 192)
    yield Convolution(batch, 17, 768, 192, ONE)
    yield Convolution(batch, 17, 192, 320, (3, 3), 2, same=False)
    yield from _branches(batch, 17, 768, ((ONE, 192), (LONG, 192), (HIGH, 192)))
    yield Convolution(batch, 17, 192, 192, (3, 3), 2, same=False)
    yield Pool(batch, 17, 768, 3, 8)
    for c_in in (1280, 2048):
        yield from _branches(batch, 8, c_in, ((ONE, 320),), ((ONE, 384),), ((ONE, 448), ((3, 3), 384)))
        for kernel in ((1, 3), (3, 1), (1, 3), (3, 1)):
            yield Convolution(batch, 8, 384, 384, kernel)
        yield from _pooled(batch, 8, c_in, 192)
    yield Pool(batch, 8, 2048, 8, 1)
    yield Dropout(batch * 2048)
    yield Convolution(batch, 1, 2048, 1000, ONE)
