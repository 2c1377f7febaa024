"""Lets the training library take the pretend communicator for a real one: for processes of whole jobs."""

from __future__ import annotations

import os
from typing import Any

from elastane.train.transports import nccl
from elastane.train.worker import communicators
from fakegpu.comm import Communicator


class _OnSharedDevice(Communicator):
    """Workers of a test may share one pretend device, which real ones may not."""

    def _refuse_duplicates(self, _gloo: Any) -> None:
        pass


def _process_group(_kind: str, store: Any, rank: int, world: int, _c10d: Any = None) -> Communicator:
    return _OnSharedDevice(store, rank, world)


def install() -> None:
    """In this process and those forked from it."""
    nccl.process_group = _process_group
    nccl.lacking = lambda _kind, _c10d=None: ""
    communicators._uuid = lambda _device: f"pretend-{os.environ.get('ELASTANE_WORKER', os.getpid())}"
