"""Defines what a user hands over for prediction: a model and how one step of it is trained."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One training step, in parts.

    ``batch_fn(size)`` makes a batch (tensors in any nesting), ``loss_fn(model, batch)`` returns a scalar to
    differentiate, ``optimizer_fn(parameters)`` makes the optimizer; None means that no step is taken.
    ``loader_fn(size)`` yields the real batches, from which the time of loading is measured.
    """

    model: Any
    batch_fn: Callable[[int], Any]
    loss_fn: Callable[[Any, Any], Any]
    optimizer_fn: Callable[[Iterable[Any]], Any] | None = None
    loader_fn: Callable[[int], Iterable[Any]] | None = None


JobFactory = Callable[[], TrainingJob]


def load_factory(reference: str) -> JobFactory:
    """Loads the function that ``package.module:function`` names; the present folder is searched first.

    >>> load_factory("nowhere")
    Traceback (most recent call last):
    ...
    elastane.errors.ElastaneError: 'nowhere' does not name a job; write it as package.module:function
    """
    module_name, colon, attribute = reference.partition(":")
    if not (module_name and colon and attribute):
        raise ElastaneError(f"{reference!r} does not name a job; write it as package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ElastaneError(f"{reference}: {error}; is the module in this folder or installed?") from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise ElastaneError(f"{reference}: there is no function {attribute} in {module_name}")

    def make() -> TrainingJob:
        job = factory()
        if not isinstance(job, TrainingJob):
            raise ElastaneError(f"{reference} must return a TrainingJob, not {type(job).__name__}")
        return job

    return make


def require_torch() -> Any:
    """Returns PyTorch; without it, raises an ``ElastaneError`` that says how to install it."""
    try:
        import torch
    except ImportError:
        raise ElastaneError("this needs PyTorch; install it with: pip install 'elastane[torch]'") from None
    return torch
