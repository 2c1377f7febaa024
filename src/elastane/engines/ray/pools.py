"""Reads what pools of machines there may be: ``--pool NAME:gpus=2,cpus=8,most=4,price=1.5``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from elastane.cluster import Node
from elastane.engines.contract import Pool
from elastane.engines.ray.messages import PoolWish
from elastane.errors import ElastaneError
from elastane.suggest import did_you_mean

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?")
_LABEL = "label."


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A kind of machine that Ray's autoscaler can get; ``least`` to ``most`` of them, at a price per hour each."""

    name: str
    gpus: int = 0
    cpus: int = 1
    accelerator: str = ""
    least: int = 0
    most: int = 1
    price: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)

    def pool(self, now: int) -> Pool:
        """Returns it as the engine's contract has it, with so many nodes now."""
        kind = self.accelerator or ("gpu" if self.gpus else "cpu")
        node = Node(self.name, self.gpus or self.cpus, kind, cpus=float(self.cpus))
        return Pool(node, now, self.least, self.most, self.price)

    def wish(self, count: int) -> PoolWish:
        """Returns the demand for so many of them."""
        return PoolWish(count, float(self.gpus), float(self.cpus), self.labels)


def parse_pool(text: str) -> PoolSpec:
    """Read one ``--pool``.

    Raises:
        ElastaneError: it makes no sense; the message names the part that does not.
    """
    name, _, rest = text.partition(":")
    if not _NAME.fullmatch(name):
        raise ElastaneError(f"--pool: a pool's name is lower-case letters, digits, '-' and '.', not {name!r}")
    spec = PoolSpec(name)
    for part in filter(None, (each.strip() for each in rest.split(","))):
        spec = _with(spec, part)
    if spec.least > spec.most:
        raise ElastaneError(f"--pool {name}: least={spec.least} is more than most={spec.most}")
    return spec


_READERS: dict[str, Callable[[str], Any]] = {
    "gpus": lambda text: _whole(text, 0, 1024),
    "cpus": lambda text: _whole(text, 1, 65_536),
    "least": lambda text: _whole(text, 0, 100_000),
    "most": lambda text: _whole(text, 0, 100_000),
    "price": lambda text: _price(text),
    "accelerator": str,
}


def _with(spec: PoolSpec, part: str) -> PoolSpec:
    key, equals, value = part.partition("=")
    if not equals:
        raise ElastaneError(f"--pool {spec.name}: {part!r} is no KEY=VALUE")
    if key.startswith(_LABEL):
        return replace(spec, labels={**spec.labels, key.removeprefix(_LABEL): value})
    if key not in _READERS:
        raise ElastaneError(
            f"--pool {spec.name}: unknown {key!r}{did_you_mean(key, [*_READERS, 'label.NAME'])}"
        )
    try:
        return replace(spec, **{key: _READERS[key](value)})
    except ValueError as error:
        raise ElastaneError(f"--pool {spec.name}: {key} {error}") from None


def _whole(text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ValueError(f"must be a whole number from {least} to {most}, not {text!r}")
    return number


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not (math.isfinite(price) and price >= 0.0):
        raise ValueError(f"must be an amount per hour of 0 or more, not {text!r}")
    return price
