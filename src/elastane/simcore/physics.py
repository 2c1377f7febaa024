"""The rules by which simulated time passes, equal for every policy."""

from __future__ import annotations

from dataclasses import asdict, dataclass


def core_share(cores: int | None, busy_slots: float) -> float:
    """min(1, cores / busy slots); 1 where slots are devices of their own."""
    return 1.0 if cores is None or busy_slots <= cores else cores / busy_slots


@dataclass(frozen=True, slots=True)
class Physics:
    """How moves are charged, when decisions happen, and what goes wrong.

    ``rounds_only`` decides only every ``interval_s`` and notices arrivals and completions only then;
    ``whole_seconds`` rounds the time of an epoch's end.  Both exist to reproduce published simulators.
    ``interval_s`` None leaves each policy its own round length.
    ``first_start_s`` is what a first start costs, when it is not the same as a restart.
    ``cores`` are shared by all slots of a machine without accelerators: while more slots are busy, each is slower.
    """

    restart_s: float = 30.0
    first_start_s: float | None = None
    interval_s: float | None = None
    interference: float = 0.0
    observation_noise: float = 0.0
    checkpoint_interval_s: float = 600.0
    rebatch_gain: float = 0.05
    rounds_only: bool = False
    whole_seconds: bool = False
    cores: int | None = None
    min_run_s: float = 0.0

    def share(self, busy_slots: float) -> float:
        """The part of its full speed that a slot has while so many are busy."""
        return core_share(self.cores, busy_slots)

    def as_dict(self) -> dict[str, object]:
        """For reports and cache keys."""
        return asdict(self)
