"""The environment tells a script where it is (alone, under torchrun, under Elastane) and how to set itself up."""

from __future__ import annotations

import os

import torch

from elastane.train.coordinator.wire import address
from elastane.train.device import Device
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.coordinator_client import CoordinatorClient
from elastane.train.worker.elastic_membership import ElasticMembership
from elastane.train.worker.membership import Membership, StaticMembership

_HOST = Device()


def membership_here(device: Device = _HOST) -> Membership:
    """Membership as the environment says: elastic, started by torchrun, or alone."""
    if "ELASTANE_COORDINATOR" in os.environ and "ELASTANE_WORKER" in os.environ:
        # Libraries that look for a fixed group would find a wrong one.
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)
        token = os.environ["ELASTANE_JOB_TOKEN"]
        host = os.environ.get("ELASTANE_HOST") or "127.0.0.1"
        client = CoordinatorClient(
            os.environ["ELASTANE_WORKER"],
            address(os.environ["ELASTANE_COORDINATOR"]),
            token,
            os.environ.get("ELASTANE_NODE", "local"),
            host,
        )
        return ElasticMembership(client, token, host, device)
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ:
        return StaticMembership(device)
    return Membership(device)


def arrange_threads(mode: Mode, threads: int | None) -> None:
    """Sums depend on how many threads make them: consistent mode needs a fixed number."""
    given = threads if threads is not None else os.environ.get("ELASTANE_THREADS")
    if given is not None:
        torch.set_num_threads(int(given))
    elif mode is Mode.CONSISTENT:
        torch.set_num_threads(1)
    if mode is Mode.CONSISTENT:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = False  # on unless switched off
