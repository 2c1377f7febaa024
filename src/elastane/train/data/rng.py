"""The global random number generators that scripts draw from: torch's (CPU), ``random``, NumPy's, and the device's.

Seeded for a moment and put back, so that reading data never disturbs the random numbers of the training.
The generator of an accelerator is touched only where a ``Device`` is given, by the training loop: data is prepared
on the CPU, in processes that must not initialise a device.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elastane.train.device import Device

_HOST = Device()


@dataclass(frozen=True, slots=True)
class RngStates:
    """Where the three generators stood."""

    torch: Tensor
    python: tuple[Any, ...]
    numpy: dict[str, Any]


def capture() -> RngStates:
    """The present states; costs about 0.1 ms (NumPy's), so per batch rather than per sample."""
    return RngStates(torch.default_generator.get_state(), random.getstate(), np.random.get_state(legacy=False))


def restore(states: RngStates) -> None:
    """Go back to captured states."""
    torch.default_generator.set_state(states.torch)
    random.setstate(states.python)
    np.random.set_state(states.numpy)


def seed_all(key: int, device: Device = _HOST) -> None:
    """Seed all of them from one 64-bit key, that of ``device`` included."""
    # torch.manual_seed would also visit every kind of device and costs milliseconds.
    torch.default_generator.manual_seed(key)
    if not device.is_cpu:
        device.seed(key)
    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)


@contextmanager
def preserved() -> Iterator[None]:
    """Whatever happens inside, the generators stand afterwards where they stood before."""
    states = capture()
    try:
        yield
    finally:
        restore(states)


@contextmanager
def seeded(key: int) -> Iterator[None]:
    """Inside, the generators are seeded by ``key``; afterwards they stand where they stood before."""
    with preserved():
        seed_all(key)
        yield


def picture(device: Device = _HOST) -> dict[str, Any]:
    """The present states as values a checkpoint can hold."""
    states = capture()
    values = {"torch": states.torch, "python": states.python, "numpy": states.numpy}
    return values if device.is_cpu else {**values, "device": {"kind": device.kind, "state": device.rng_state()}}


def put_picture(values: dict[str, Any], device: Device = _HOST) -> None:
    """Go back to a picture; generators of another kind of device do not know its states and are left alone."""
    restore(RngStates(values["torch"], values["python"], values["numpy"]))
    there = values.get("device")
    if there is not None and there["kind"] == device.kind:
        device.set_rng_state(there["state"])
