"""Captures the operators of one training step of a PyTorch model, without running it.  Imports PyTorch."""

from elastane.predict.capturing.tracing import capture

__all__ = ["capture"]
