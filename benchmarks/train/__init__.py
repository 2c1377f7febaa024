"""Figures of the training library: real jobs on this machine, timed by the training scripts themselves."""
