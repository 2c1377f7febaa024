"""From a PyTorch model to the operators of one training step, without running it.  Imports PyTorch."""

from elastane.predict.capturing.tracing import capture

__all__ = ["capture"]
