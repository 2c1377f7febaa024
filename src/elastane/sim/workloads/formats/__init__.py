"""The trace formats that can be read, one module per family."""

from __future__ import annotations

from typing import Any

from elastane.sim.workloads.formats.acme import KalosFormat, SerenFormat
from elastane.sim.workloads.formats.base import Format, Options
from elastane.sim.workloads.formats.elastane import ElastaneFormat
from elastane.sim.workloads.formats.gavel import GavelFormat, ShockwaveFormat
from elastane.sim.workloads.formats.helios import HeliosFormat
from elastane.sim.workloads.formats.itp import ItpFormat
from elastane.sim.workloads.formats.philly import PhillyCsvFormat, PhillyFormat
from elastane.sim.workloads.formats.pollux import PolluxFormat
from elastane.sim.workloads.formats.tiresias import ChronusFormat, TiresiasFormat

FORMATS: tuple[Format[Any], ...] = (
    ElastaneFormat(),
    PolluxFormat(),
    PhillyFormat(),
    PhillyCsvFormat(),
    ItpFormat(),
    HeliosFormat(),
    SerenFormat(),
    KalosFormat(),
    GavelFormat(),
    ShockwaveFormat(),
    TiresiasFormat(),
    ChronusFormat(),
)
"""Every known format."""

__all__ = ["FORMATS", "Format", "Options"]
