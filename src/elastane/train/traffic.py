"""``Traffic`` is the type in which gradients travel between workers; what is done with them stays float32."""

from __future__ import annotations

from enum import Enum

from elastane.suggest import did_you_mean
from elastane.train.errors import TrainError

TRAFFIC = "ELASTANE_TRAFFIC"
"""Set by the owner of a job: a ``Traffic``, for scripts that do not say one."""


class Traffic(Enum):
    """How wide a number is on its journey."""

    FP32 = "fp32"
    BF16 = "bf16"
    """Half the bytes; every worker still ends with the same bits."""


def traffic_of(written: str | None, *, consistent: bool) -> Traffic:
    """The type of this name; raises TrainError where the mode promises that nothing is rounded."""
    names = [each.value for each in Traffic]
    if written is not None and written not in names:
        raise TrainError(
            f"traffic: there is no {written!r}{did_you_mean(written, names)} (known: {', '.join(names)})"
        )
    chosen = Traffic(written) if written is not None else Traffic.FP32
    if consistent and chosen is not Traffic.FP32:
        raise TrainError(
            f"traffic: {chosen.value} rounds gradients on their way, so consistent mode refuses it; say fp32"
        )
    return chosen
