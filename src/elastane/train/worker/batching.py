"""``Batching`` holds what adapts a job's batch, and splits the same total anew when the workers are others."""

from __future__ import annotations

from elastane.train.adapt.controller import Adaptation
from elastane.train.adapt.rules import BatchChoice
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.membership import Membership


class Batching:
    """The batch of a job, as one worker knows it."""

    def __init__(self, membership: Membership, agreement: Agreement) -> None:
        self.adaptation: Adaptation | None = None
        """Batch and learning rate, once there is a loader."""
        self._membership = membership
        self._agreement = agreement

    def adapt(self, adaptation: Adaptation) -> None:
        """From now on batch and learning rate are this one's."""
        self.adaptation = adaptation

    def resplit(self) -> None:
        """The same total is split over other workers; the leader may think of a better one later."""
        m, adaptation = self._membership, self.adaptation
        if adaptation is None:
            return
        adaptation.memory.agree(m.most)
        total = max(self._agreement.total, adaptation.settings.batch0)
        batch = BatchChoice(total, "resized").shape(m.world, adaptation.limits)
        adaptation.adopt(batch, m.world, m.nodes)
