"""Consensus is said and read in passing: rows of the table behind the gradients, by which members agree.

Every member writes its row before a reduction and reads all rows after it.  Since all read the same table, all
take the same decisions at the same step: when to change members, to stop, and what batch to use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from torch import Tensor

from elastane.cluster import Batch
from elastane.train.adapt.controller import Adaptation
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.reports.events import Rebatched
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.digest import EVERY as DIGEST_EVERY
from elastane.train.worker.digest import digest, digest_there
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import FIXED, Column, Row, Table
from elastane.train.worker.telemetry import Reporter

_MOST = 2**23
"""Whole numbers in the table stay below this, where they are exact."""


class Agreement:
    """One worker's part in it."""

    def __init__(self, mode: Mode, membership: Membership, reporter: Reporter) -> None:
        self.generation = 0
        """To be entered at the next boundary; 0 for none."""
        self.at_loop = 0
        """To be entered at the next boundary at which a loop over the data begins; 0 for none."""
        self.stop = False
        self.total = 0
        """The total batch last agreed on; 0 for the owner's."""
        self._adaptive = mode is Mode.ADAPTIVE
        self._measures = mode is not Mode.CONSISTENT
        self._membership = membership
        self._reporter = reporter
        self._fits = 0
        self._losses = [0.0, 0.0]
        self._loss_there: Tensor | None = None

    def loss(self, value: float | Tensor) -> None:
        """A loss the script reported; it travels with the next step.  On a device it is not read before."""
        if isinstance(value, Tensor):
            self._loss_there = value if self._loss_there is None else self._loss_there + value
        else:
            self._losses[0] += value
        self._losses[1] += 1.0

    def take_generation(self, *, loop_begins: bool) -> int:
        """The generation to be entered now, once; 0 for none."""
        generation, self.generation = self.generation, 0
        if loop_begins:
            generation, self.at_loop = generation or self.at_loop, 0
        return generation

    def resume(self, total: int) -> None:
        """Take over the total batch that others have agreed on."""
        self.total = total

    def alone(self) -> None:
        """With one worker, what it is told decides."""
        self.generation = self._membership.next_generation()
        self.at_loop = self._membership.next_at_loop()
        self.stop = self._membership.stop_cause() is not None

    def row(
        self, step: int, layout: GradientLayout, adaptation: Adaptation | None, passes_s: Sequence[float]
    ) -> Row:
        """What this worker has to say in ``step``."""
        row = [0.0] * FIXED
        there: list[tuple[int, Tensor]] = []
        if self._loss_there is not None:
            there.append((Column.LOSS, (self._loss_there + self._losses[0]).view(1)))
        row[Column.STOP] = float(self._membership.stop_cause() is not None)
        row[Column.COMPUTE_S] = sum(passes_s)
        row[Column.UNITS] = len(passes_s)
        row[Column.LOSS], row[Column.LOSSES] = self._losses
        row[Column.FITS] = self._fits
        if step % DIGEST_EVERY == 0:
            parameters, turn = list(layout.parameters), step // DIGEST_EVERY
            if layout.device.is_cpu:
                high, low = digest(parameters, turn)
                row[Column.DIGEST_HIGH], row[Column.DIGEST_LOW] = float(high), float(low)
            else:
                there.append((Column.DIGEST_HIGH, digest_there(parameters, turn)))
        if self._membership.rank == 0:
            row[Column.SWITCH] = self._membership.next_generation()
            row[Column.AT_LOOP] = self._membership.next_at_loop()
            if adaptation is not None:
                self._propose(row, adaptation, step)
        if adaptation is not None and (local := adaptation.statistics.local_there) is not None:
            there.append((FIXED, local))
        return Row(row + self._norms(len(layout.groups), adaptation), there)

    def _propose(self, row: list[float], adaptation: Adaptation, step: int) -> None:
        m, batch = self._membership, adaptation.batch
        row[Column.STRIDE] = adaptation.statistics.stride
        row[Column.NOISE] = min(adaptation.statistics.noise.count, _MOST)
        if self._adaptive:
            proposal = adaptation.propose(m.world, m.nodes, time.monotonic(), step)
            if adaptation.untried(proposal):
                row[Column.TRIAL] = proposal.per_gpu
            else:
                batch = proposal
        row[Column.PER_WORKER], row[Column.ACCUMULATION] = batch.per_gpu, batch.accumulation

    def _norms(self, groups: int, adaptation: Adaptation | None) -> list[float]:
        """Norms of this worker's units and, from the leader, the noise it has estimated so far."""
        if adaptation is None or not self._measures:
            return [0.0] * 3 * groups
        noise = adaptation.statistics.noise
        if self._membership.rank != 0 or not noise.count:
            return adaptation.statistics.local() + [0.0] * 2 * groups
        averages = [value / noise.weight for value in (*noise.sqr, *noise.var)]
        return adaptation.statistics.local() + averages

    def read(self, table: Table, adaptation: Adaptation | None, fits: Callable[[int], bool], step: int) -> None:
        """Take in what everybody said; ``fits`` tries a batch in memory."""
        self._losses, self._loss_there = [0.0, 0.0], None
        self.generation, self.at_loop = table.leader(Column.SWITCH), table.leader(Column.AT_LOOP)
        self.stop = table.any(Column.STOP)
        if adaptation is not None and self._adaptive:
            self._learn_memory(adaptation, table, fits)
            self._rebatch(adaptation, table, step)

    def _learn_memory(self, adaptation: Adaptation, table: Table, fits: Callable[[int], bool]) -> None:
        said = [round(value) for value in table.all(Column.FITS) if value]
        if said and min(said) < 0:
            adaptation.did_not_fit(Batch(-min(said), 0))
        elif said:
            adaptation.fitted(Batch(min(said), 0))
        trial = table.leader(Column.TRIAL)
        self._fits = (trial if fits(trial) else -trial) if trial else 0

    def _rebatch(self, adaptation: Adaptation, table: Table, step: int) -> None:
        batch = Batch(table.leader(Column.PER_WORKER), table.leader(Column.ACCUMULATION))
        if batch == adaptation.batch or batch.per_gpu < 1:
            return
        before = adaptation.total
        adaptation.adopt(batch, self._membership.world, self._membership.nodes)
        self.total = adaptation.total
        if self._membership.rank == 0:
            now = self._reporter.wall()
            self._reporter.emit(Rebatched(now, step, before, adaptation.total, adaptation.reason))
