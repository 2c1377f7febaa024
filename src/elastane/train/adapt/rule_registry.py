"""The batch rules by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from elastane.suggest import did_you_mean
from elastane.train.adapt.adabatch import AdaBatch
from elastane.train.adapt.cabs import Cabs
from elastane.train.adapt.rules import BatchRule, Fixed, PolluxRule
from elastane.train.errors import TrainError

BATCH_RULES: Mapping[str, Callable[[], BatchRule]] = MappingProxyType(
    {"fixed": Fixed, "pollux": PolluxRule, "adabatch": AdaBatch, "cabs": Cabs}
)
"""Each makes the rule with its published settings."""


def rule_named(name: str) -> BatchRule:
    """The batch rule of that name; an unknown one is an error that names the nearest."""
    make = BATCH_RULES.get(name)
    if make is None:
        raise TrainError(
            f"batch rule: there is no {name!r}{did_you_mean(name, BATCH_RULES)} (known: {', '.join(BATCH_RULES)})"
        )
    return make()
