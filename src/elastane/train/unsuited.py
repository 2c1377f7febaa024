"""Modules that cannot train elastically are refused here, in words that say what to write instead."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from elastane.train.errors import TrainError


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
