"""How a control plane works, as it was asked to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elastane.service.control.policy_runner import PATIENCE_S
from elastane.service.limits import Limits


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Everything that a control plane is told when it is made."""

    home: Path
    policy: str = "elastane"
    interval_s: float | None = None
    """Between rounds of re-dividing; None leaves it to the policy."""
    seed: int = 0
    patience_s: float = PATIENCE_S
    """How long a policy may think."""
    min_run_s: float = 60.0
    """A job that was just started is not suspended for another before this."""
    forget_after_s: float = 3600.0
    """How long a node is shown as lost that nobody has declared or drained."""
    pending_per_tenant: int = Limits().pending_per_tenant
