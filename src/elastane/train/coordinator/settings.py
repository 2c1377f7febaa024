"""Holds the limits of one job that its coordinator and its liveness rules go by."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.train.transport_choice import TransportWish


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of one job, and how long to wait for what."""

    workers: int = 1
    max_workers: int | None = None
    shadow: bool = True
    transport: TransportWish = TransportWish.STAGED
    """How gradients are to travel between devices."""
    replace: bool = True
    lease_s: float = 6.0
    warm_lease_s: float = 120.0
    hello_s: float = 600.0
    """How long a worker's process may take until it says hello: its imports, and whatever its script does before."""
    hang_factor: float = 20.0
    hang_floor_s: float = 5.0
    first_step_s: float = 120.0
    """A worker in its first steps may be idle for so long while others wait ..."""
    compile_s: float = 1800.0
    """... and at work for so long: it may be compiling."""
    join_patience_s: float = 10.0
    prepare_s: float = 120.0
    enter_s: float = 60.0
    max_apart: int = 2
    """Groups in a row whose members could not connect, after which that is not tried again."""
    max_deaths: int = 5
    """Deaths without a single step between them, after which the job is given up."""
