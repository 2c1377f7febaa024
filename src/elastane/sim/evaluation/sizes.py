"""Defines the sizes of an evaluation: ``quick`` (minutes), ``normal``, and ``full`` (whole weeks, over a night)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Defaults for all options that cost time; each can also be given on its own."""

    policies: str
    workloads: str
    loads: str
    seeds: str
    cluster: str
    days: float
    interval_s: float


SIZES = {
    "quick": Size(
        policies="elastane,pollux,tiresias,fifo,srtf",
        workloads="philly,itp",
        loads="medium",
        seeds="0-2",
        cluster="4x4:t4",
        days=0.25,
        interval_s=60.0,
    ),
    "normal": Size(
        policies="elastane,pollux,optimus,tiresias,easy,fifo,srtf",
        workloads="philly,helios,itp",
        loads="light,medium,heavy",
        seeds="0-2",
        cluster="8x4:t4",
        days=1.5,
        interval_s=120.0,
    ),
    "full": Size(
        policies="all",
        workloads="philly,helios,itp,pollux,pollux-realistic",
        loads="light,medium,heavy",
        seeds="0-4",
        cluster="16x4:t4",
        days=7.0,
        interval_s=60.0,
    ),
}
