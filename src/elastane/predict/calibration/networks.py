"""Draws small random networks to calibrate with: the families people train, at sizes they use.

Measuring operators at uniformly random sizes would teach the wrong lesson: real channel counts are even, real images
small where channels are many.  So whole small networks are drawn, and all their operators measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from elastane.predict.job import TrainingJob

CHANNELS = (8, 16, 24, 32, 48, 64, 96, 128)
UNEVEN = 0.2
"""Fraction of blocks whose channels are not a multiple of 8: slow on vector units, but some networks have them."""
BATCHES = (2, 4, 8, 12, 16, 24, 32, 48, 64)
MOST_FLOPS = 20e9
"""FLOPs of a step at most, so that many networks can be measured."""
PER_VALUE = 1000.0
"""FLOPs that take as long as all work on one value of an image besides products, forward and backward."""


Made = TypeVar("Made")
Drawn = tuple[Made, float]
"""A job or a part of one, with the approximate FLOPs (or work that takes as long) of its training per sample."""


class Residual(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(),
            nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(c_out),
        )
        plain = stride == 1 and c_in == c_out
        self.short = nn.Identity() if plain else nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Runs the block and adds its input (a residual connection)."""
        return functional.relu(self.body(x) + self.short(x))


def _residual(c_in: int, c_out: int, stride: int, side: float) -> Drawn[nn.Module]:
    pixels = (side / stride) ** 2
    return Residual(c_in, c_out, stride), pixels * (54 * c_out * (c_in + c_out) + 2 * PER_VALUE * c_out)


def _separable(c_in: int, c_out: int, stride: int, side: float) -> Drawn[nn.Module]:
    pixels = (side / stride) ** 2
    block = nn.Sequential(
        nn.Conv2d(c_in, c_in, 3, stride, 1, groups=c_in, bias=False),
        nn.BatchNorm2d(c_in),
        nn.ReLU6(),
        nn.Conv2d(c_in, c_out, 1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU6(),
    )
    return block, pixels * (6 * c_in * (9 + c_out) + PER_VALUE * (c_in + c_out))


def _plain(c_in: int, c_out: int, stride: int, side: float) -> Drawn[nn.Module]:
    kernel = 5 if stride > 1 else 3
    pool = nn.MaxPool2d(2) if stride > 1 else nn.Identity()
    block = nn.Sequential(nn.Conv2d(c_in, c_out, kernel, 1, kernel // 2), nn.ReLU(), pool)
    return block, side**2 * (6 * kernel**2 * c_in * c_out + PER_VALUE * c_out)


Block = Callable[[int, int, int, float], Drawn[nn.Module]]
"""Makes a block of channels in and out and a stride, for images of a side."""


def _images(draw: random.Random, block: Block) -> Drawn[TrainingJob]:
    size, width = draw.choice((24, 28, 32, 48, 64)), draw.choice(CHANNELS[1:6])
    stride = draw.choice((1, 2))
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU()]
    side = size / stride
    flops = side**2 * width * (6 * 27 + PER_VALUE)
    for _ in range(draw.randint(2, 5)):
        stride = draw.choice((1, 2)) if side >= 2 else 1  # nothing is left to halve
        wider = draw.choice([each for each in CHANNELS if each >= width][:3])
        wider -= draw.choice((1, 2, 4)) if draw.random() < UNEVEN else 0
        layer, more = block(width, wider, stride, side)
        layers.append(layer)
        flops += more
        width, side = wider, side / stride
    classes = draw.choice((10, 100))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
    job = TrainingJob(
        nn.Sequential(*layers),
        lambda n: (torch.randn(n, 3, size, size), torch.randint(0, classes, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        _optimizer(draw),
    )
    return job, flops


def _vectors(draw: random.Random) -> Drawn[TrainingJob]:
    width = draw.choice((64, 128, 256, 384, 512, 784, 1024))
    first, layers = width, list[nn.Module]()
    for _ in range(draw.randint(2, 4)):
        wider = draw.choice((64, 128, 256, 512, 768, 1024))
        layers += [nn.Linear(width, wider), draw.choice((nn.ReLU(), nn.GELU(), nn.Tanh()))]
        if draw.random() < 0.5:
            layers.append(draw.choice((nn.LayerNorm(wider), nn.Dropout(0.1))))
        width = wider
    job = TrainingJob(
        nn.Sequential(*layers, nn.Linear(width, 10)),
        lambda n: (torch.randn(n, first), torch.randint(0, 10, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        _optimizer(draw),
    )
    return job, 6.0 * sum(each.numel() for each in job.model.parameters())


class Recurrent(nn.Module):
    """A language model with an LSTM or a GRU."""

    def __init__(self, words: int, width: int, layers: int, gated: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.cells = (nn.LSTM if gated else nn.GRU)(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the scores of the next word."""
        return self.head(self.cells(self.words(x))[0])  # type: ignore[no-any-return]


class Attentive(nn.Module):
    """A language model with transformer layers."""

    def __init__(self, words: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, functional.gelu, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the scores of the next word."""
        return self.head(self.layers(self.words(x)))  # type: ignore[no-any-return]


def _words(draw: random.Random, recurrent: bool) -> Drawn[TrainingJob]:
    words, width = draw.choice((500, 1000, 4000)), draw.choice((64, 96, 128, 192, 256))
    length, layers = draw.choice((16, 24, 32, 48)), draw.randint(1, 2)
    model: nn.Module
    if recurrent:
        gated = draw.random() < 0.85
        length = (
            length if gated else 16
        )  # a GRU is not fused: thousands of calls, and little to learn from them
        model = Recurrent(words, width, layers, gated)
    else:
        model = Attentive(words, width, layers, draw.choice((2, 4, 8)), draw.choice((0.0, 0.1)))
    job = TrainingJob(
        model,
        lambda n: torch.randint(0, words, (n, length)),
        lambda model, x: functional.cross_entropy(model(x).flatten(0, 1), x.flatten()),
        _optimizer(draw),
    )
    return job, 6.0 * length * sum(each.numel() for each in model.parameters())


class Sequence(nn.Module):
    """An LSTM over vectors: the cheapest way to measure many sizes of it."""

    def __init__(self, inner: int, width: int, layers: int) -> None:
        super().__init__()
        self.cells = nn.LSTM(inner, width, layers, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the scores at the last step."""
        return self.head(self.cells(x)[0][:, -1])  # type: ignore[no-any-return]


def _sequences(draw: random.Random) -> Drawn[TrainingJob]:
    inner, width = (draw.choice((32, 64, 96, 128, 160, 192, 256, 320)) for _ in range(2))
    length, layers = draw.choice((8, 12, 16, 24, 32, 48, 64)), draw.randint(1, 3)
    model = Sequence(inner, width, layers)
    job = TrainingJob(
        model,
        lambda n: (torch.randn(n, length, inner), torch.randint(0, 10, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        _optimizer(draw),
    )
    return job, 6.0 * length * sum(each.numel() for each in model.parameters())


def _optimizer(draw: random.Random) -> Callable[..., torch.optim.Optimizer]:
    if draw.random() < 0.5:
        return lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)
    return lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


FAMILIES: tuple[Callable[[random.Random], Drawn[TrainingJob]], ...] = (
    lambda draw: _images(draw, _plain),
    lambda draw: _images(draw, _residual),
    lambda draw: _vectors(draw),
    lambda draw: _images(draw, _separable),
    lambda draw: _words(draw, recurrent=True),
    lambda draw: _words(draw, recurrent=False),
    lambda draw: _sequences(draw),
)


def network(seed: int, index: int) -> tuple[TrainingJob, int]:
    """Returns the network of a number, with its batch; families take turns, and equal numbers give equal networks."""
    family = FAMILIES[index % len(FAMILIES)]
    draw = random.Random(f"{seed}/{index}")
    job, flops = family(draw)
    fitting = [batch for batch in BATCHES if batch * flops <= MOST_FLOPS]
    return job, draw.choice(fitting or BATCHES[:1])
