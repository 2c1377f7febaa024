"""Checks say in one line that a model or a batch is not on the worker's device, before an operator complains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, device, nn

from elastane.train.device import Device, against_tf32
from elastane.train.errors import TrainError


def device_of(parameters: Iterable[Tensor]) -> Device:
    """The one device that all of these are on."""
    found: dict[str, device] = {str(p.device): p.device for p in parameters}
    if len(found) > 1:
        where = " and ".join(sorted(found, reverse=True))
        raise TrainError(f"parameters are on {where}: put the whole model on job.device")
    for one in found.values():
        return Device() if one.type == "cpu" else Device(one.type, one.index or 0)
    return Device()


def check_model(parameters: Iterable[Tensor], expected: Device) -> None:
    """Refuse a model that is not, as a whole, where this worker trains."""
    found = device_of(parameters)
    if found != expected:
        raise TrainError(
            f"the model is on {found}, but this worker trains on {expected}: write model.to(job.device), "
            f"or init(device={str(found)!r})"
        )


def check_deterministic(device: Device) -> None:
    """Refuse settings under which an accelerator may give other bits the next time (consistent mode)."""
    if device.is_cpu:
        return
    problems = {
        **dict.fromkeys(against_tf32(), True),
        "torch.backends.cudnn.benchmark = False": torch.backends.cudnn.benchmark,
        "torch.use_deterministic_algorithms(True)": not torch.are_deterministic_algorithms_enabled(),
    }
    for remedy, wrong in problems.items():
        if wrong:
            raise TrainError(f"mode: consistent gives the same bits only with {remedy}")


def check_first_batch(module: nn.Module, expected: Device) -> None:
    """Refuse the first batch that a module trains on if all of it is elsewhere; later ones cost nothing."""
    if expected.is_cpu:
        return

    def look(module: nn.Module, args: Any, kwargs: Any) -> None:
        if module.training:
            handle.remove()
            found = [tensor for tensor in tensors_in((args, kwargs)) if tensor.ndim]
            if not any(tensor.device.type == expected.kind for tensor in found):
                check_batch(found, expected)

    handle = module.register_forward_pre_hook(look, with_kwargs=True)


def check_batch(batch: Any, expected: Device) -> None:
    """Refuse a batch with tensors elsewhere (tensors without dimensions may stay on the CPU)."""
    for tensor in tensors_in(batch):
        kind, index = tensor.device.type, tensor.device.index or 0
        if (kind, index) != (expected.kind, expected.index) and tensor.ndim:
            raise TrainError(
                f"the model is on {expected}, but its batch is on {tensor.device}: write batch.to(job.device)"
            )


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in lists, tuples, mappings and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name))
