"""Names of parameters and buffers that do not depend on whether a module is compiled.

``torch.compile`` wraps a module, and its parameters are then called ``_orig_mod.weight``.  State goes by the plain
names, so a job may be compiled in one run and not in the next, or on one worker only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch import nn

_WRAPPER = "_orig_mod."


def plain_name(name: str) -> str:
    """A parameter's name without the wrappers around its module."""
    return name.replace(_WRAPPER, "")


def model_state(model: nn.Module) -> dict[str, Any]:
    """A model's ``state_dict`` under plain names."""
    return _renamed(model.state_dict(), plain_name)


def load_model_state(model: nn.Module, state: dict[str, Any]) -> None:
    """``load_state_dict`` of what ``model_state`` took."""
    own = {plain_name(name): name for name in model.state_dict()}
    model.load_state_dict(_renamed(state, lambda name: own.get(plain_name(name), name)))


def _renamed(state: dict[str, Any], rename: Callable[[str], str]) -> dict[str, Any]:
    """The same state under other names; with the versions of its modules, which are an attribute of it."""
    if all(rename(name) == name for name in state):
        return state
    renamed = OrderedDict((rename(name), value) for name, value in state.items())
    versions = getattr(state, "_metadata", None)
    if versions is not None:
        # A module's path ends where the name of something in it would go on.
        paths = {path: rename(f"{path}.")[:-1] if path else path for path in versions}
        renamed._metadata = OrderedDict((paths[path], version) for path, version in versions.items())  # type: ignore[attr-defined]
    return renamed
