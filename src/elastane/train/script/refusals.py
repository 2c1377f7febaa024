"""Refusals name what cannot train elastically, in words that say what to write instead."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from elastane.train.adapt.oom_trial import is_out_of_memory
from elastane.train.device import about_index
from elastane.train.errors import TrainError

_NO_GROUP = ("Default process group has not been initialized", "torch.distributed using env:// rendezvous")
"""How PyTorch complains about collectives, or ``init_process_group``, in a worker of ours."""


def refuse_unsuited(module: nn.Module) -> None:
    """Wrappers and layers that talk to a fixed process group of their own have none here."""
    for name, part in module.named_modules():
        kind, where = type(part).__name__, f" ({name!r})" if name else ""
        if isinstance(part, DistributedDataParallel | DataParallel):
            raise TrainError(
                f"job.model() was given {kind}{where}: the library averages gradients itself; "
                "pass the module inside it, without the wrapper"
            )
        if isinstance(part, nn.SyncBatchNorm):
            raise TrainError(
                f"job.model() was given a module with {kind}{where}, which needs a fixed process group; "
                "use BatchNorm (leave out convert_sync_batchnorm) or GroupNorm"
            )


def refuse_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """An optimizer that evaluates the loss itself would do so on a part of the batch."""
    for part in getattr(optimizer, "optimizers", ()):  # of a chain
        refuse_optimizer(part)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise TrainError(
            "job.optimizer() was given LBFGS, which evaluates the loss several times per step (a closure), on this "
            "worker's part of the batch; use an optimizer whose step() needs no closure: SGD, Adam, AdamW, …"
        )


def checked_loss(where: str, loss: str | None) -> str | None:
    """What a script declares its loss to be; ``where`` is what it called."""
    if loss not in (None, "mean", "sum"):
        raise TrainError(f"{where}(loss=...): must be 'mean' or 'sum', not {loss!r}")
    return loss


def advice(error: BaseException) -> str:
    """What to write instead: of PyTorch's own collectives, of a device that is not there, of too large a part."""
    if is_out_of_memory(error):
        return (
            "a worker's part of the batch does not fit into memory: say job.loader(…, max_per_worker=N) with the "
            "number of samples that fits; the rest of the batch is accumulated"
        )
    if not any(text in str(error) for text in _NO_GROUP):
        return about_index(error)
    return (
        "workers that come and go have no default process group: leave init_process_group out, and write "
        "job.all_reduce(x, 'mean') in the place of dist.all_reduce"
    )
