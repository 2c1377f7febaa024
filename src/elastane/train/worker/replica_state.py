"""Everything that makes two workers replicas of each other, by name; taken, put back, and sent along a group.

What travels is in main memory; each tensor comes back to the device that the script has put its own on.
Parameters and optimizer state are the bulk.  The rest (buffers, schedulers, data position, statistics and what
the script registers) is small, and can be sent by itself when the bulk has travelled another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from elastane.train.coordinator.wire import Line, Message, encode_message
from elastane.train.errors import TrainError
from elastane.train.worker.host_copies import on_host
from elastane.train.worker.parameter_names import load_model_state, model_state, plain_name
from elastane.train.worker.state_codec import Packed, pack, unpack
from elastane.train.worker.tensor_list import Listed, listed

_MERGED_BYTES = 1 << 16
"""Tensors up to this size travel together: a collective costs more than copying them."""


class StateHeader(Message, frozen=True, tag="state"):
    """What is said of a state before its tensors come."""

    tree: Any
    tensors: tuple[Listed, ...]


STATE = Line("the root", StateHeader)


class Stateful(Protocol):
    """What the script may register."""

    def state_dict(self) -> Any:
        """A picture of the state: numbers, text, tensors, and lists and dicts of them."""
        ...

    def load_state_dict(self, state_dict: Any) -> Any:
        """Go back to such a picture."""
        ...


class Channel(Protocol):
    """The part of a group that state needs."""

    rank: int

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """``tensor`` becomes the root's."""
        ...

    def broadcast_bytes(self, data: bytes | None, root: int) -> bytes:
        """The root's bytes, everywhere."""
        ...


@dataclass(slots=True)
class Selection:
    """How the state tells, and is told, which parameters are trained (``trained``)."""

    take: Callable[[], Any] = lambda: None
    put: Callable[[Any], None] = lambda _: None
    """Train these from the next step on, once all workers agree."""
    settle: Callable[[], None] = lambda: None
    """All workers become replicas of one: what that one trains is agreed on."""


class TrainingState:
    """The registry of one worker."""

    def __init__(self) -> None:
        self.models: dict[str, nn.Module] = {}
        self.optimizers: list[torch.optim.Optimizer] = []
        self.selection = Selection()
        self._together: nn.ModuleDict | None = None
        self._parts: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {}
        self._early: dict[str, Any] = {}

    @property
    def model(self) -> nn.Module | None:
        """The module that is trained; one around all of them, by their names, where there are several."""
        if len(self.models) < 2:
            return next(iter(self.models.values()), None)
        if self._together is None or len(self._together) != len(self.models):
            self._together = nn.ModuleDict(self.models)
        return self._together

    @model.setter
    def model(self, model: nn.Module) -> None:
        self.models = {"model": model}

    def select(self, selection: Selection) -> None:
        """Let ``selection`` say, and be told, which parameters are trained."""
        self.selection = selection

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer; the first one, where there are several."""
        return self.optimizers[0] if self.optimizers else None

    @optimizer.setter
    def optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizers = [optimizer]

    def add(self, name: str, take: Callable[[], Any], put: Callable[[Any], Any]) -> None:
        """Register a part; state of that name which arrived before is put at once."""
        if name in self._parts:
            raise TrainError(f"two things are registered under the name {name!r}")
        self._parts[name] = (take, put)
        if name in self._early:
            put(self._early.pop(name))

    def parts(self) -> dict[str, Any]:
        """The state of all registered parts (and of parts that were not registered again)."""
        return {**self._early, **{name: take() for name, (take, _) in self._parts.items()}}

    def put_parts(self, parts: dict[str, Any]) -> None:
        """Put back what ``parts`` took."""
        for name, state in parts.items():
            if name in self._parts:
                self._parts[name][1](state)
            else:
                self._early[name] = state

    def take(self) -> Packed:
        """All of it; tensors are not copied."""
        return pack(
            {
                "model": model_state(self.model) if self.model is not None else None,
                "optimizer": self.optimizer.state_dict() if self.optimizer is not None else None,
                "more_optimizers": [optimizer.state_dict() for optimizer in self.optimizers[1:]],
                "trained": self.selection.take(),
                "parts": self.parts(),
            }
        )

    def put(self, packed: Packed) -> None:
        """Become what ``take`` saw."""
        state = unpack(packed)
        if self.model is not None and state["model"] is not None:
            _load(partial(load_model_state, self.model), state["model"], "model")
        if state.get("trained") is not None:
            self.selection.put(state["trained"])
            self.selection.settle()
        if self.optimizer is not None and state["optimizer"] is not None:
            self._put_optimizers([state["optimizer"], *state.get("more_optimizers", [])])
        self.put_parts(state["parts"])

    def _put_optimizers(self, saved: list[Any]) -> None:
        if len(saved) != len(self.optimizers):
            raise TrainError(
                f"the saved optimizer does not fit this script's optimizer: {len(saved)} were saved, and there are "
                f"{len(self.optimizers)} now"
            )
        for optimizer, state in zip(self.optimizers, saved, strict=True):
            _load(optimizer.load_state_dict, state, "optimizer")

    def take_small(self, followed: Iterable[nn.Parameter]) -> Packed:
        """Everything but the parameters that were ``followed``, and their optimizer state."""
        groups = self.optimizer.state_dict()["param_groups"] if self.optimizer is not None else []
        known = {id(p) for p in followed}
        rest = {name: t for name, t in self._tensors().items() if id(t) not in known}
        return pack(
            {
                "groups": groups,
                "trained": self.selection.take(),
                "rest": {name: t.detach() for name, t in rest.items()},
                "parts": self.parts(),
            }
        )

    def _tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers of the model, by name."""
        if self.model is None:
            return {}
        found = (*self.model.named_parameters(), *self.model.named_buffers())
        return {plain_name(name): tensor for name, tensor in found}

    @torch.no_grad()
    def put_small(self, packed: Packed) -> None:
        """The inverse of ``take_small``."""
        state = unpack(packed)
        if state["trained"] is not None:
            self.selection.put(state["trained"])
        if self.optimizer is not None:
            for group, saved in zip(self.optimizer.param_groups, state["groups"], strict=True):
                group.update({key: value for key, value in saved.items() if key != "params"})
        tensors = self._tensors()
        for name, saved in state["rest"].items():
            # A buffer that is no part of the state may be there on one worker only.
            if name in tensors and tensors[name].shape == saved.shape:
                tensors[name].copy_(saved)
        self.put_parts(state["parts"])

    def share(self, group: Channel, root: int) -> int:
        """Everybody becomes the root's replica; returns the bytes sent."""
        if group.rank == root:
            self.selection.settle()
        packed = self.take() if group.rank == root else None
        received = broadcast_packed(group, root, packed)
        if packed is None:
            self.put(received)
        return sum(tensor.nbytes for tensor in received.tensors.values())


def _load(load: Callable[[Any], Any], state: Any, what: str) -> None:
    try:
        load(state)
    except (RuntimeError, ValueError, KeyError) as error:
        text = " ".join(str(error).split())
        raise TrainError(f"the saved {what} does not fit this script's {what}: {text}") from error


def broadcast_packed(group: Channel, root: int, packed: Packed | None) -> Packed:
    """Send (at the root) or receive packed state."""
    header = None
    if packed is not None:
        header = encode_message(StateHeader(packed.tree, listed(packed.tensors)))
    told = STATE.decode(group.broadcast_bytes(header, root))
    if packed is not None:
        tensors = dict(zip(packed.tensors, on_host(list(packed.tensors.values())), strict=True))
    else:
        tensors = {each.name: torch.empty(each.shape, dtype=each.torch_dtype) for each in told.tensors}
    _broadcast_small(group, root, [t for t in tensors.values() if 0 < t.nbytes <= _MERGED_BYTES])
    for tensor in tensors.values():
        if tensor.nbytes > _MERGED_BYTES:
            group.broadcast(_as_bytes(tensor), root)
    return Packed(tensors, told.tree)


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.view(-1).view(torch.uint8)


def _broadcast_small(group: Channel, root: int, tensors: list[Tensor]) -> None:
    if not tensors:
        return
    merged = torch.cat([_as_bytes(t) for t in tensors])
    group.broadcast(merged, root)
    if group.rank != root:
        at = 0
        for tensor in tensors:
            _as_bytes(tensor).copy_(merged[at : at + tensor.nbytes])
            at += tensor.nbytes
