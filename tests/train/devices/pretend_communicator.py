"""Puts the pretend communicator where the training library looks for c10d's."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist

from elastane.train.transports import nccl
from fakegpu.comm import Communicator, Faults

NAME = "ProcessGroupPretend"
FAULTS = "FAKEGPU_FAULTS"
"""Set to the names of what goes wrong (fields of ``Faults``), with commas between."""


class ProcessGroupPretend(Communicator):
    """As ``ProcessGroupNCCL``: made of a store, a rank, a size and options."""

    def __init__(self, store: Any, rank: int, world: int, _options: Any = None) -> None:
        names = [name for name in os.environ.get(FAULTS, "").split(",") if name]
        super().__init__(store, rank, world, Faults(**dict.fromkeys(names, True)))

    @staticmethod
    def Options() -> Any:
        return SimpleNamespace(config=SimpleNamespace(blocking=True), _timeout=None)


def register() -> None:
    """From now on there is a communicator for the pretend device."""
    setattr(dist, NAME, ProcessGroupPretend)
    nccl._GROUPS["fakegpu"] = NAME
