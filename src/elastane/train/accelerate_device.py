"""Tells the state that Accelerate keeps for a process, and Transformers uses, where this worker trains.

Accelerate looks for a device by itself: it would miss that the script asked for another one, and knows few kinds.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch


def place_accelerate(device: torch.device) -> None:
    """From now on everything that Accelerate places goes to ``device``."""
    states: Any = importlib.import_module("accelerate.state")
    for kind in (states.PartialState, states.AcceleratorState):
        if kind._shared_state:
            kind._shared_state["device"] = device
