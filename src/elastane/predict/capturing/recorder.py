"""Records every operator that PyTorch dispatches, with its phase and module; computes nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker

from elastane.predict.capturing.rules import Call, cost_of
from elastane.predict.operators import Operator, Phase, Shape

_SILENT = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "_unsafe_view",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsafe_chunk",
    "transpose_",
    "t_",
    "squeeze_",
    "unsqueeze_",
    "_local_scalar_dense",
    "lift_fresh",
    "detach",
    "_reshape_alias",
    "set_",
    "resize_",
    "is_same_size",
    "result_type",
}
"""Operators that only make or describe tensors."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that records operators; ``phase`` is set from outside, where backward begins."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = Phase.FORWARD
        self.operators: list[Operator] = []
        self.calls = 0
        self.largest_output = 0
        self.modules = ModuleTracker()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Passes the call on, then records it."""
        del types
        result = func(*args, **(kwargs or {}))
        if func.namespace in ("prim", "profiler") or func.is_view:
            return result
        self.calls += 1
        stem = func._schema.name.partition("::")[2]
        if stem not in _SILENT:
            self.note(func, stem, args, kwargs or {}, result)
        return result

    def note(self, func: Any, stem: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Converts one call to an operator and appends it."""
        read, written = tuple(_sizes((args, kwargs))), tuple(_sizes(result))
        call = Call(
            stem=stem,
            pointwise=torch.Tag.pointwise in func.tags,
            reduction=torch.Tag.reduction in func.tags,
            arguments=args,
            named=kwargs,
            read=read,
            written=written,
        )
        cost = cost_of(call)
        self.largest_output = max(self.largest_output, sum(size for _, size in written))
        self.operators.append(
            Operator(
                name=f"{func.namespace}::{stem}",
                kind=cost.kind,
                phase=self.phase,
                flops=cost.flops,
                bytes=cost.bytes,
                dims=cost.dims,
                module=self._module(),
                inputs=tuple(shape for shape, _ in read),
                outputs=tuple(shape for shape, _ in written),
                dtype=_dtype(result) or _dtype(args) or "float32",
            )
        )

    def _module(self) -> str:
        """Returns the path of the innermost module at work, without the class of the whole model before it."""
        names = [name for name in self.modules.parents if name != "Global"]
        deepest = max(names, key=lambda name: (name.count("."), name), default="")
        return deepest.partition(".")[2]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in value:
            yield from _tensors(each)


def _sizes(value: Any) -> Iterator[tuple[Shape, int]]:
    """Yields shape and bytes of every tensor in a value; an expanded tensor counts no more than its storage."""
    for tensor in _tensors(value):
        stored = tensor.untyped_storage().nbytes()
        size = tensor.numel() * tensor.element_size()
        yield tuple(int(side) for side in tensor.shape), min(size, int(stored)) if stored else size


def _dtype(value: Any) -> str | None:
    first = next((each for each in _tensors(value) if each.is_floating_point()), None)
    return None if first is None else str(first.dtype).removeprefix("torch.")
