"""The phases of one step leave figures for the report of the whole step; gradients they are given are checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from elastane.train.adapt.controller import Adaptation
from elastane.train.errors import TrainError
from elastane.train.reduce.contract import Shares
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import Table
from elastane.train.worker.telemetry import Reporter


class PhaseFigures:
    """Tables and times of the phases made since the last whole step."""

    def __init__(self) -> None:
        self._tables: list[Table] = []
        self._spent_s: list[float] = []
        self._synced_s = 0.0

    def made(self, table: Table, passes_s: Sequence[float]) -> None:
        """A phase is made, after passes of so many seconds."""
        self._tables.append(table)
        self._spent_s += passes_s

    def waited(self, seconds: float) -> None:
        """Its reduction and step took so long."""
        self._synced_s += seconds

    def forget_tables(self) -> None:
        """Members have changed: rows are of other ranks."""
        self._tables = []

    def account(
        self, shares: Shares, membership: Membership, reporter: Reporter, adaptation: Adaptation | None
    ) -> None:
        """Report the whole step, as if its phases had been one, and begin anew."""
        m = membership
        tables = [table for table in self._tables if len(table.rows) == m.world]
        if tables:
            units = max(1, len([u for u in shares.owned_by(m.rank) if shares.counts[u]]))
            passes = [sum(self._spent_s) / units] * units
            reporter.account(Table.summed(tables), shares, passes, self._synced_s, m, adaptation)
        self._tables, self._spent_s, self._synced_s = [], [], 0.0


class GradientWitness:
    """Remembers the gradients that were there at the last call of ``step()``.

    A second run of the body would compute those of an earlier backward from parameters that have changed meanwhile.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Tensor, int]] = {}

    def forget(self) -> None:
        """Forget all gradients, since a loop body begins."""
        self._seen = {}

    def look(self, parameters: Iterable[nn.Parameter]) -> None:
        """Remember the gradients of now."""
        self._seen = {id(p): (p.grad, p.grad._version) for p in parameters if p.grad is not None}

    def refuse_old(self, parameters: Iterable[nn.Parameter]) -> None:
        """Raise if an optimizer is to step on gradients of which none is newer than the last step."""
        given = [(id(p), p.grad) for p in parameters if p.grad is not None]
        if given and all(self._same(key, gradient) for key, gradient in given):
            raise TrainError(
                "one backward() was followed by step() of two optimizers: that is one step; use one optimizer with two "
                "parameter groups, or et.Chained(first, second)"
            )

    def _same(self, key: int, gradient: Tensor) -> bool:
        seen = self._seen.get(key)
        return seen is not None and seen[0] is gradient and seen[1] == gradient._version
