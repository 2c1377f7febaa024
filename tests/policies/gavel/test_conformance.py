"""Every objective keeps the promises of the contract (the defaults are tried with all other policies)."""

from __future__ import annotations

from elastane.policies.gavel.policy import OBJECTIVES
from elastane.policies.registry import make_policy
from elastane.testing.policies import PolicyConformance

VARIANTS = [f"gavel(objective={name})" for name in OBJECTIVES if name != "max_min_fairness"]
VARIANTS += ["gavel(aware=false)", "gavel-oracle(objective=finish_time_fairness)"]

globals().update(
    {
        f"Test{written}": type(
            f"Test{written}", (PolicyConformance,), {"policy": make_policy(written), "examples": 4}
        )
        for written in VARIANTS
    }
)
