"""Measured times of operators and layers from files: what cost models learn from and are tried on."""

from elastane.predict.timings.files import TimingSet, load_timings

__all__ = ["TimingSet", "load_timings"]
