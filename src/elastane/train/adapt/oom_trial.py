"""Does a pass over so many samples fit in memory?  Tries it, and leaves everything as it was.

The inputs are the last ones seen, repeated.  The loss is not known here: the sum of all floating outputs
stands for it, which needs less memory than most losses, so a success is nearly but not quite a proof.
On an accelerator room is left for what training needs besides: a second gradient vector after a death, and the
communicator that is prepared while the present one is in use.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from elastane.train.data.rng import preserved
from elastane.train.device import Device
from elastane.train.device_checks import device_of
from elastane.train.errors import TrainError

COMMUNICATOR_BYTES = 700 << 20
"""Published figures of NCCL's are 544 to 688 MB; of a real machine ``elastane bench-gpu`` tells."""
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "defaultcpuallocator")


def try_batch(
    model: nn.Module,
    inputs: object,
    samples: int,
    restore: Callable[[], None] | None = None,
    reserve: int = 0,
) -> bool:
    """Whether forward and backward over ``samples`` samples fit.

    ``inputs`` is a tuple of positional arguments, a mapping of keyword arguments, or the only argument.
    Parameters and gradients are not touched; buffers and random generators are put back; then ``restore``
    is called, for whatever else the caller has to put back.  Any error but a lack of memory is raised.
    ``reserve`` bytes of the device have to be left over.
    """
    device = device_of(model.parameters())
    with ExitStack() as after:
        if restore is not None:
            after.callback(restore)
        after.enter_context(_kept_random_state(device))
        after.enter_context(_kept_buffers(model))
        fits = _attempt(model, inputs, samples, 0 if device.is_cpu else reserve, device)
    if not fits:
        # Only here: inside the handler the frames of the traceback would still hold the tensors.
        gc.collect()
    device.release()  # what only the trial needed would be missing elsewhere: communicators do not ask PyTorch
    return fits


def memory_besides(numbers: int, communicator: bool) -> int:
    """Bytes that training may need at any time besides a step: another vector of so many gradients, a communicator."""
    return 8 * numbers + (COMMUNICATOR_BYTES if communicator else 0)


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


def _attempt(model: nn.Module, inputs: object, samples: int, reserve: int, device: Device) -> bool:
    try:
        kept = torch.empty(reserve, dtype=torch.uint8, device=device.as_torch())
        with torch.enable_grad():
            outputs = _call(model, repeated(inputs, samples))
            loss = sum((out.float().sum() for out in _tensors(outputs) if out.requires_grad), torch.zeros(()))
            parameters = [p for p in model.parameters() if p.requires_grad]
            if loss.requires_grad and parameters:
                # Unlike backward() this writes to no .grad and wakes none of the library's hooks.
                torch.autograd.grad(loss, parameters, allow_unused=True)
        del kept
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
def _kept_random_state(device: Device) -> Iterator[None]:
    there = None if device.is_cpu else device.rng_state()
    try:
        with preserved():
            yield
    finally:
        if there is not None:
            device.set_rng_state(there)


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
