"""The real communicators that ``NcclLike`` is given: c10d's NCCL (RCCL on ROCm) and XCCL groups, built directly.

PyTorch's own watchdog is switched off: it would kill the process where we want to abort and go on.  The
settings have to be in the environment before the first communicator is made, so a worker calls ``prepare``
before it builds one.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from elastane.train.transports.contract import NoTransport

SETTINGS = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_BLOCKING_WAIT": "0",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_PROPAGATE_ERROR": "0",
    "TORCH_NCCL_NAN_CHECK": "0",
    "TORCH_NCCL_NONBLOCKING_TIMEOUT": "50",
    "NCCL_RUNTIME_CONNECT": "0",
    "NCCL_MAX_P2P_NCHANNELS": "2",
}
"""Nobody but us ends a collective; creation does not wait for ever (PyTorch gives it up before our own deadline does,
since it may hold a lock that an abort needs); rings are connected while it is created; exchanges of blocks (consistent
mode, bf16 traffic) have few channels, since buffers of each are device memory (3 GB were reported of one machine)."""
NEVER = timedelta(days=30)
"""PyTorch's deadline of a collective: ours is the one that counts."""
OLDEST = (2, 26)
"""The first NCCL whose abort is relied upon by others, too."""

_GROUPS = {"cuda": "ProcessGroupNCCL", "xpu": "ProcessGroupXCCL"}


def prepare(environment: MutableMapping[str, str]) -> None:
    """Put the settings there that nobody has chosen differently; the watchdog is not a matter of choice."""
    for name, value in SETTINGS.items():
        if name.startswith("TORCH_NCCL_"):
            environment[name] = value
        else:
            environment.setdefault(name, value)


def lacking(kind: str, c10d: Any = dist) -> str:
    """Why there is no communicator for a kind of device here, or nothing."""
    name = _GROUPS.get(kind)
    if name is None or not hasattr(c10d, name):
        return f"this PyTorch has no communicator for {kind}"
    if kind == "cuda" and torch.version.cuda is not None:
        version = nccl_version()
        if version is not None and version < OLDEST:
            written, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST))
            return f"NCCL {written} cannot be aborted reliably ({oldest} can)"
    return ""


def nccl_version() -> tuple[int, ...] | None:
    """The NCCL that this PyTorch was built with; asks no device."""
    try:
        return tuple(torch.cuda.nccl.version())  # type: ignore[no-untyped-call]
    except (AttributeError, RuntimeError):
        return None


def process_group(kind: str, store: Any, rank: int, world: int, c10d: Any = dist) -> Any:
    """A group of c10d that has not connected yet; the first sum behind its ``eager_connect…`` takes seconds."""
    problem = lacking(kind, c10d)
    if problem:
        raise NoTransport(problem)
    group = getattr(c10d, _GROUPS[kind])
    options = group.Options()
    options._timeout = NEVER
    if hasattr(options, "config"):  # NCCL's and RCCL's
        options.config.blocking = False
    return group(store, rank, world, options)
