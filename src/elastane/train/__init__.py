"""The library a training script imports: elastic, adaptive PyTorch training.

Importing it is cheap: PyTorch comes with the first name that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastane.lazy import lazy_names

if TYPE_CHECKING:
    from elastane.train.adapt.adabatch import AdaBatch
    from elastane.train.adapt.cabs import Cabs
    from elastane.train.adapt.rules import Fixed, PolluxRule
    from elastane.train.data import SeekableStream, sample_generator
    from elastane.train.errors import TrainError
    from elastane.train.script.api import Job, init
    from elastane.train.script.chained import Chained

_HOME = {
    "AdaBatch": "adapt.adabatch",
    "Cabs": "adapt.cabs",
    "Chained": "script.chained",
    "Fixed": "adapt.rules",
    "Job": "script.api",
    "PolluxRule": "adapt.rules",
    "SeekableStream": "data",
    "TrainError": "errors",
    "init": "script.api",
    "sample_generator": "data",
}

__all__ = [
    "AdaBatch",
    "Cabs",
    "Chained",
    "Fixed",
    "Job",
    "PolluxRule",
    "SeekableStream",
    "TrainError",
    "init",
    "sample_generator",
]

_get = lazy_names(__name__, _HOME)


def __getattr__(name: str) -> Any:
    """Import a name from its module; without a PyTorch that will do, one line says so."""
    if name in _HOME and name != "TrainError":
        from elastane.train.torch_range import check_torch

        check_torch()
    return _get(name)
