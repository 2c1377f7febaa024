"""An elastic state survives a change of members: named values, committed in memory, taken over by whoever is behind.

A commit copies; ``restore`` goes back to it; ``sync`` gives everybody the state of the worker that has committed
most (the lowest rank of several), be it after a failure or for newcomers.  Objects with ``state_dict`` and
``load_state_dict`` count with their state, everything else with its value: numbers, text, tensors, arrays, and lists
and dicts of them.  Where Elastane runs the job, commits are also written to its run now and then, and a new run of
the same job begins with the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from elastane.compat.horovod.elastic.sampler import ElasticSampler
from elastane.compat.horovod.objects import share
from elastane.compat.horovod.operations import allgather
from elastane.compat.horovod.process import session
from elastane.train.errors import TrainError
from elastane.train.worker.state_codec import Packed, clone_tensors, pack, unpack


class State:
    """What ``elastic.run`` needs; ``save``, ``restore`` and ``sync`` are for subclasses to write."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Call these whenever members have changed, before the state is taken over (to scale a learning rate)."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Call what the script registered for a change of members."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Keep the present state, and let members change here."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Let members change here, without keeping the state."""
        session().agree(self.picture)

    def picture(self) -> Packed | None:
        """The state for a file, if it has such a form."""
        return None

    def reset(self) -> None:
        """Adapt to other members; for subclasses."""

    def save(self) -> None:
        """Keep the present state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to what was kept."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give everybody the same state."""
        raise NotImplementedError


class ObjectState(State):
    """State made of the values given, which become attributes."""

    def __init__(self, **values: Any) -> None:
        super().__init__()
        taken = [name for name in values if name.startswith("_") or hasattr(type(self), name)]
        if taken:
            raise TrainError(f"elastic state: {taken[0]!r} is a name that the state uses itself")
        self._names = tuple(values)
        self._commits = 0
        self._saved: Packed | None = None
        for name, value in values.items():
            setattr(self, name, value)
        self._keep()

    def picture(self) -> Packed:
        """All values as they are; tensors are not copied."""
        values = {name: _state_of(getattr(self, name)) for name in self._names}
        return pack({"state": values, "commits": self._commits, "step": session().step})

    def _keep(self) -> None:
        self._saved = clone_tensors(self.picture(), into=self._saved)

    def save(self) -> None:
        """Keep the present state in memory."""
        here = session()
        self._commits += 1
        epoch = getattr(self, "epoch", 0)
        here.record.at_epoch(epoch if isinstance(epoch, int) else 0)
        self._keep()

    def restore(self) -> None:
        """Go back to what was kept."""
        assert self._saved is not None
        self._put(clone_tensors(self._saved))

    def _put(self, packed: Packed) -> None:
        picture = unpack(packed)
        for name, value in picture["state"].items():
            mine: Any = getattr(self, name, None)
            if not _is_stateful(mine):
                setattr(self, name, value)
                continue
            try:
                mine.load_state_dict(value)
            except (RuntimeError, ValueError, KeyError) as error:
                text = " ".join(str(error).split())
                raise TrainError(f"elastic state: another worker's {name} does not fit: {text}") from error
        self._commits = picture["commits"]
        session().resume(picture["step"])

    def sync(self) -> None:
        """Everybody takes over the newest state; the first of all looks for a checkpoint."""
        here = session()
        own = [self._commits, here.step]
        everybody = allgather(torch.tensor([own])).tolist()
        newest = max(everybody)
        root = everybody.index(newest)
        mine = here.membership.rank == root
        if mine and newest == [0, 0]:
            saved = here.record.load(here.membership.generation)
            if saved is not None:
                self._put(saved)
        for sampler in self._samplers():
            sampler.merge(own == newest, root)
        packed = share(self.picture() if mine else None, root)
        if not mine:
            self._put(packed)
        for sampler in self._samplers():
            sampler.reset()
        self._keep()

    def _samplers(self) -> list[ElasticSampler]:
        values = [getattr(self, name) for name in self._names]
        return [value for value in values if isinstance(value, ElasticSampler)]


class TorchState(ObjectState):
    """State of a model, an optimizer, and other values: ``TorchState(model, optimizer, epoch=0, batch=0)``."""

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **values: Any,
    ) -> None:
        named = {"model": model, "optimizer": optimizer}
        super().__init__(**{name: value for name, value in named.items() if value is not None}, **values)


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _state_of(value: Any) -> Any:
    return value.state_dict() if _is_stateful(value) else value
