"""Workloads: loaders for public traces, synthetic generators, and the built-in ones."""

from elastane.sim.workloads.loader import detect, load
from elastane.sim.workloads.pollux import pollux_like
from elastane.sim.workloads.source import parse_workload, scaled
from elastane.sim.workloads.synth import synthesise
from elastane.sim.workloads.trace import Trace, TraceJob

__all__ = ["Trace", "TraceJob", "detect", "load", "parse_workload", "pollux_like", "scaled", "synthesise"]
