"""Does a pass over so many samples fit in memory?  Tries it, and leaves everything as it was.

The inputs are the last ones seen, repeated.  The loss is not known here: the sum of all floating outputs
stands for it, which needs less memory than most losses, so a success is nearly but not quite a proof.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elastane.train.errors import TrainError

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "defaultcpuallocator")


def try_batch(
    model: nn.Module, inputs: object, samples: int, restore: Callable[[], None] | None = None
) -> bool:
    """Whether forward and backward over ``samples`` samples fit.

    ``inputs`` is a tuple of positional arguments, a mapping of keyword arguments, or the only argument.
    Parameters and gradients are not touched; buffers and random generators are put back; then ``restore``
    is called, for whatever else the caller has to put back.  Any error but a lack of memory is raised.
    """
    with ExitStack() as after:
        if restore is not None:
            after.callback(restore)
        after.enter_context(_kept_random_state())
        after.enter_context(_kept_buffers(model))
        fits = _attempt(model, inputs, samples)
    if not fits:
        # Only here: inside the handler the frames of the traceback would still hold the tensors.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return fits


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on any device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _OUT_OF_MEMORY)


def repeated(inputs: Any, samples: int) -> Any:
    """The same structure with every batched tensor repeated to ``samples`` samples.

    Batched is what has as many rows as the first tensor found; everything else is passed on as it is.
    """
    first = next((tensor for tensor in _tensors(inputs) if tensor.dim() > 0), None)
    if first is None or first.shape[0] == 0:
        raise TrainError("inputs: there is no tensor with samples in it to repeat")
    return _repeated(inputs, first.shape[0], samples)


def _attempt(model: nn.Module, inputs: object, samples: int) -> bool:
    try:
        with torch.enable_grad():
            outputs = _call(model, repeated(inputs, samples))
            loss = sum((out.float().sum() for out in _tensors(outputs) if out.requires_grad), torch.zeros(()))
            parameters = [p for p in model.parameters() if p.requires_grad]
            if loss.requires_grad and parameters:
                # Unlike backward() this writes to no .grad and wakes none of the library's hooks.
                torch.autograd.grad(loss, parameters, allow_unused=True)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def _call(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _repeated(value: Any, rows: int, samples: int) -> Any:
    if isinstance(value, Tensor):
        if value.dim() == 0 or value.shape[0] != rows:
            return value
        return value.detach().index_select(0, torch.arange(samples, device=value.device) % rows)
    if isinstance(value, Mapping):
        return {key: _repeated(item, rows, samples) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_repeated(item, rows, samples) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_repeated(item, rows, samples) for item in value)
    return value


@contextmanager
def _kept_random_state() -> Iterator[None]:
    python, legacy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


@contextmanager
def _kept_buffers(model: nn.Module) -> Iterator[None]:
    kept = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, content in kept:
                module._buffers[name] = buffer.copy_(content)
