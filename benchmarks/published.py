"""What the OSDI'21 simulator published, and how to replay the same workloads here."""

from __future__ import annotations

from benchmarks.figures import shared_data
from elastane.sim.metrics import summarise
from elastane.sim.result import RunResult
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec
from elastane.simcore.physics import Physics

MEAN_JCT_S = {
    "pollux": {1: 2089.0, 3: 2188.0, 5: 2674.0, 6: 2446.0},
    "optimus-oracle": {1: 4087.0, 3: 3944.0, 5: 5656.0, 6: 5302.0},
    "tiresias": {1: 2474.0, 3: 3876.0, 5: 3501.0, 6: 3470.0},
}
"""Published mean JCT per policy and tuned workload: 16 nodes × 4 GPUs, 60 s rounds, 30 s restart."""

WORKLOADS = (1, 3, 5, 6)


def replay_spec(policy: str, workload: int, compat: bool = True) -> RunSpec:
    """The published setting, with the published physics or with the corrected one."""
    return RunSpec(
        workload=str(shared_data("data", "pollux", "workloads", f"workload-{workload}.csv")),
        policy=policy,
        profiles=str(shared_data("data", "pollux", "profiles")),
        compat="osdi21" if compat else None,
        physics=Physics(restart_s=30.0, interval_s=60.0),
    )


def replay(policy: str, workload: int, compat: bool = True) -> tuple[float, RunResult]:
    """Mean JCT and the whole result."""
    result = simulate(replay_spec(policy, workload, compat))
    mean = summarise(result).mean_jct_s
    assert mean is not None
    return mean, result
