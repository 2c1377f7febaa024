"""Elastane: a scheduler that stretches every training job to the GPUs that do the most good right now."""

from __future__ import annotations

__version__ = "0.1.0"
