"""The resource vector that nodes offer and tasks take.  Below every room, because jobs and cluster share it."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """GPUs, CPU cores, memory and network bandwidth of one task or one node."""

    gpus: float = 0.0
    cpus: float = 0.0
    memory_gb: float = 0.0
    bandwidth_gbps: float = 0.0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.gpus + other.gpus,
            self.cpus + other.cpus,
            self.memory_gb + other.memory_gb,
            self.bandwidth_gbps + other.bandwidth_gbps,
        )

    def __sub__(self, other: Resources) -> Resources:
        return self + other * -1.0

    def __mul__(self, times: float) -> Resources:
        # 0 * inf would be nan; nothing of an unlimited resource is nothing.
        def scaled(amount: float) -> float:
            return amount * times if amount else 0.0

        return Resources(*(scaled(amount) for amount in astuple(self)))

    def fits(self, capacity: Resources) -> bool:
        """Whether this much can be taken from ``capacity`` (with room for rounding)."""
        slack = 1e-9
        return all(need <= have + slack for need, have in zip(astuple(self), astuple(capacity), strict=True))

    def dominant_share(self, capacity: Resources) -> float:
        """The largest fraction of any resource of ``capacity`` that this takes (DRF's dominant share)."""
        shares = (
            need / have for need, have in zip(astuple(self), astuple(capacity), strict=True) if need and have
        )
        return max(shares, default=0.0)
