"""Elastane: stretches every deep-learning training job to the GPUs that do the most good right now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastane.client import Client

__all__ = ["Client", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Client":  # imported when it is asked for: a training script does not need it
        from elastane.client import Client

        return Client
    raise AttributeError(f"module 'elastane' has no attribute {name!r}")
