"""Reads measured times of operators and layers from files, to fit and to test cost models."""

from elastane.predict.timings.files import TimingSet, load_timings

__all__ = ["TimingSet", "load_timings"]
