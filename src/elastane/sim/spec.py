"""Everything that determines a simulation, as one plain value: what is cached, sent to a process, and reported."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from elastane.cluster import Cluster, Node
from elastane.errors import ElastaneError
from elastane.sim.attach_truth import Binding
from elastane.sim.declarations import Declaration
from elastane.simcore.physics import Physics
from elastane.suggest import did_you_mean

COMPAT = ("osdi21", "gavel", "sia")
"""Published simulators whose physics can be reproduced."""

_OF_POLLUX = ("osdi21", "sia")
"""Sia's simulator grew out of Pollux's; it differs in what restarts take."""

_PINNED = {name: {"ncf": 32768} for name in _OF_POLLUX}
"""Applications a published simulator holds at one GPU and one batch size."""

MOST_NOISE = 2.0
"""Measurements wrong by more than this factor say nothing any more."""


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
    declare: str = "epochs"
    declare_error: float = 0.0
    """Owners are wrong about the length of their jobs by up to this fraction of it, either way."""
    failures_per_1000_node_days: float = 0.0
    format: str | None = None
    skip_bad: bool = False
    history: str | None = None
    """A file of past jobs (``elastane history build``) that every new job is held against."""

    def __post_init__(self) -> None:
        if self.compat is not None and self.compat not in COMPAT:
            hint = did_you_mean(self.compat, COMPAT)
            raise ElastaneError(f"unknown --compat {self.compat!r}{hint} (known: {', '.join(COMPAT)})")
        Declaration.parse(self.declare)
        if self.seed < 0:
            raise ElastaneError(f"--seed is a whole number from zero up, not {self.seed}")
        for option, value, within, wanted in self._numbers():
            if not (within and math.isfinite(value)):
                raise ElastaneError(f"{option} {wanted}, not {value:g}")

    def _numbers(self) -> Iterator[tuple[str, float, bool, str]]:
        """Every number with its option as users write it, whether it is in its range, and the range in words."""
        physics, fraction = self.physics, "is a fraction between 0 and 1"
        interval_s = 1.0 if physics.interval_s is None else physics.interval_s
        noise, slowdown, failures = (
            physics.observation_noise,
            physics.interference,
            self.failures_per_1000_node_days,
        )
        yield "--restart", physics.restart_s, physics.restart_s >= 0.0, "must be 0 or more and finite"
        yield "--interval", interval_s, interval_s > 0.0, "must be above 0 and finite"
        yield "--interference", slowdown, 0.0 <= slowdown < 1.0, "is a fraction from 0 up and below 1"
        yield "--noise", noise, 0.0 <= noise <= MOST_NOISE, f"must be between 0 and {MOST_NOISE:g}"
        yield "--load", self.load, self.load > 0.0, "must be above 0 and finite"
        yield "--rigid", self.rigid, 0.0 <= self.rigid <= 1.0, fraction
        yield "--fixed-batch", self.fixed_batch, 0.0 <= self.fixed_batch <= 1.0, fraction
        yield (
            "--declare-error",
            self.declare_error,
            0.0 <= self.declare_error < 1.0,
            "is a fraction from 0 up and below 1",
        )
        yield "--failures", failures, failures >= 0.0, "must be 0 or more and finite"

    def effective_physics(self) -> Physics:
        """The physics with what the compatibility switch changes."""
        if self.compat == "gavel":
            return replace(self.physics, interval_s=self.gavel_round_s, rounds_only=True, restart_s=0.0)
        if self.compat not in _OF_POLLUX:
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
            declare=self.declare,
            declare_error=self.declare_error,
            recorded=self.compat in _OF_POLLUX,
            own_restarts=self.compat == "sia",
            pinned=_PINNED.get(self.compat or ""),
            skip_bad=self.skip_bad,
            whole_steps_s=self.gavel_round_s if self.compat == "gavel" else None,
        )

    @property
    def gavel_round_s(self) -> float:
        """The length of a round in Gavel's simulator, unless another one is asked for."""
        return self.physics.interval_s or 360.0


def parse_cluster(text: str) -> Cluster:
    """``16x4:t4`` or several groups, ``6x4:t4,2x8:a100``: nodes × GPUs per node : accelerator."""
    nodes: list[Node] = []
    for group in text.split(","):
        shape, _, kind = group.strip().partition(":")
        count, _, gpus = shape.partition("x")
        if not (count.isdecimal() and gpus.isdecimal() and int(count) > 0 and int(gpus) > 0):
            raise ElastaneError(f"a cluster is written NODESxGPUS:TYPE[,…], as in 16x4:t4, not {text!r}")
        for _ in range(int(count)):
            nodes.append(Node(f"n{len(nodes):03d}", int(gpus), kind or "t4"))
    return Cluster.of(nodes)
