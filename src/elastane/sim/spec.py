"""Everything that determines a simulation, as one plain value: what is cached, sent to a process, and reported."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from elastane.cluster import Cluster, Node
from elastane.errors import ElastaneError
from elastane.lookahead.physics import Physics
from elastane.sim.binding import Binding
from elastane.suggest import did_you_mean

COMPAT = ("osdi21",)
"""Published simulators whose physics can be reproduced."""

_PINNED = {"osdi21": {"ncf": 32768}}
"""Applications a published simulator holds at one GPU and one batch size."""


@dataclass(frozen=True)
class RunSpec:
    """One policy, one workload, one cluster, one seed."""

    workload: str
    policy: str
    cluster: str = "16x4:t4"
    profiles: str | None = None
    compat: str | None = None
    physics: Physics = field(default_factory=Physics)
    seed: int = 0
    load: float = 1.0
    rigid: float = 0.0
    fixed_batch: float = 0.0
    failures_per_1000_node_days: float = 0.0
    format: str | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        if self.compat is not None and self.compat not in COMPAT:
            hint = did_you_mean(self.compat, COMPAT)
            raise ElastaneError(f"unknown --compat {self.compat!r}{hint} (known: {', '.join(COMPAT)})")
        for name, value in (("rigid", self.rigid), ("fixed-batch", self.fixed_batch)):
            if not 0.0 <= value <= 1.0:
                raise ElastaneError(f"--{name} is a fraction between 0 and 1, not {value}")
        for name, value in (
            ("restart", self.physics.restart_s),
            ("failures", self.failures_per_1000_node_days),
        ):
            if value < 0.0:
                raise ElastaneError(f"--{name} must be 0 or more, not {value}")
        if self.physics.interval_s is not None and self.physics.interval_s <= 0.0:
            raise ElastaneError(f"--interval must be above 0, not {self.physics.interval_s}")
        if not 0.0 <= self.physics.interference < 1.0:
            raise ElastaneError(f"--interference is a fraction below 1, not {self.physics.interference}")

    def effective_physics(self) -> Physics:
        """The physics with what the compatibility switch changes."""
        if self.compat != "osdi21":
            return self.physics
        interval_s = self.physics.interval_s or 60.0
        return replace(
            self.physics, interval_s=interval_s, rounds_only=True, whole_seconds=True, rebatch_gain=0.0
        )

    def binding(self) -> Binding:
        """How trace rows become jobs."""
        return Binding(
            profiles=Path(self.profiles) if self.profiles else None,
            rigid=self.rigid,
            fixed_batch=self.fixed_batch,
            recorded=self.compat == "osdi21",
            pinned=_PINNED.get(self.compat or ""),
            skip_bad=self.skip_bad,
        )


def parse_cluster(text: str) -> Cluster:
    """``16x4:t4`` or several groups, ``6x4:t4,2x8:a100``: nodes × GPUs per node : accelerator."""
    nodes: list[Node] = []
    for group in text.split(","):
        shape, _, kind = group.strip().partition(":")
        count, _, gpus = shape.partition("x")
        if not (count.isdigit() and gpus.isdigit() and int(count) > 0 and int(gpus) > 0):
            raise ElastaneError(f"a cluster is written NODESxGPUS:TYPE[,…], as in 16x4:t4, not {text!r}")
        for _ in range(int(count)):
            nodes.append(Node(f"n{len(nodes):03d}", int(gpus), kind or "t4"))
    return Cluster.of(nodes)
