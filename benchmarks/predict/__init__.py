"""Figures of prediction: layers on published timings, whole networks on this machine, and time left on real curves."""
