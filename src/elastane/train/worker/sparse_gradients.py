"""Sparse gradients: parts are added up as dense ones, and only an optimizer that insists is given sparse ones again.

``SGD`` and ``Adagrad`` compute the same either way.  ``SparseAdam`` changes only rows that have a gradient: rows in
which the mean gradient is zero everywhere have none.
"""

from __future__ import annotations

import torch


def give_sparse(optimizer: torch.optim.Optimizer) -> None:
    """Turn dense gradients into sparse ones where the optimizer takes no others."""
    for part in getattr(optimizer, "optimizers", ()):  # of a chain
        give_sparse(part)
    if not isinstance(optimizer, torch.optim.SparseAdam):
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and not parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_sparse(1)
