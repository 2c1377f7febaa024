"""The modules, parameters and buffers that a model has when training begins, watched for others in their places.

A worker that joins or restarts later builds the model from the top of the script.  If the others have meanwhile put
another layer, parameter or buffer into theirs, it could not become their replica, so that is refused.  Other
*values*, also by ``p.data = …`` or a buffer that is assigned anew, are no other structure.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from elastane.train.errors import TrainError
from elastane.train.worker.parameter_names import plain_name

_INSTEAD = (
    "a worker that joins would not have it; build everything before job.epochs(...), change values in place "
    "(load_state_dict, p.data.copy_), freeze and unfreeze with requires_grad_"
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one module consists of, as it was."""

    module: nn.Module
    path: str
    parameters: tuple[tuple[str, int], ...]
    children: tuple[tuple[str, int], ...]
    buffers: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(module: nn.Module, path: str) -> _Parts:
        """A module as it is now."""
        return _Parts(
            module,
            path,
            tuple((key, id(p)) for key, p in module._parameters.items()),
            tuple((key, id(m)) for key, m in module._modules.items()),
            tuple(key for key in module._buffers if key not in module._non_persistent_buffers_set),
            tuple(() if p is None else tuple(p.shape) for p in module._parameters.values()),
        )

    def difference(self, now: _Parts) -> str:
        """What has become of it, in one clause."""
        for what in ("parameters", "children", "buffers", "shapes"):
            before, after = getattr(self, what), getattr(now, what)
            if before == after:
                continue
            if what == "shapes":
                index = next(i for i, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1])
                return f"parameter {self._name(self.parameters[index][0])} has another shape"
            kind = {"parameters": "parameter", "children": "module", "buffers": "buffer"}[what]
            before_keys, after_keys = _keys(before), _keys(after)
            for key in after_keys:
                if key not in before_keys:
                    return f"{kind} {self._name(key)} is new"
            for key in before_keys:
                if key not in after_keys:
                    return f"{kind} {self._name(key)} is gone"
            changed = next((a[0] for a, b in zip(after, before, strict=True) if a != b), "")
            return f"{kind} {self._name(changed)} was replaced"
        return ""

    def _name(self, key: str) -> str:
        return plain_name(f"{self.path}.{key}" if self.path else key)


def _keys(entries: tuple[tuple[str, int] | str, ...]) -> list[str]:
    return [entry if isinstance(entry, str) else entry[0] for entry in entries]


class ModelStructure:
    """A model's structure at the beginning; ``check`` costs a few microseconds per module."""

    def __init__(self, model: nn.Module) -> None:
        # References keep what was replaced alive, so no new object can be mistaken for it.
        self._parameters = [(p, p.shape) for p in model.parameters()]
        self._parts = [_Parts.of(module, path) for path, module in model.named_modules()]
        self._quick = [(parts.module, _mark(parts.module)) for parts in self._parts]

    def check(self) -> None:
        """Refuse a model that has other parts than at the beginning."""
        if all(_mark(module) == marks for module, marks in self._quick) and all(
            parameter.shape == shape for parameter, shape in self._parameters
        ):
            return
        for parts in self._parts:
            difference = parts.difference(_Parts.of(parts.module, parts.path))
            if difference:
                raise TrainError(f"{difference} since training began, and {_INSTEAD}")
        self._quick = [(parts.module, _mark(parts.module)) for parts in self._parts]


def _mark(module: nn.Module) -> list[object]:
    """What changes with a module's parts, and is quick to compare."""
    return [
        list(map(id, module._parameters.values())),
        list(map(id, module._modules.values())),
        list(module._buffers),
    ]
