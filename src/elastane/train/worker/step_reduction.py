"""``StepReduction`` adds up the gradients of a step over all workers, with the table of what each has to say."""

from __future__ import annotations

from elastane.train.errors import TrainError
from elastane.train.reduce.contract import Ahead
from elastane.train.reduce.gradients import GradientVector
from elastane.train.worker.optimizer_setup import OptimizerSetup
from elastane.train.worker.piggyback_table import STALE, STEADY, Column, Row, Table
from elastane.train.worker.step_parts import StepParts
from elastane.train.worker.table_exchange import NoQuestion, exchange
from elastane.train.worker.update import Updates
from elastane.train.worker.whereabouts import Whereabouts


class StepReduction:
    """One worker's part in the reductions of its gradients."""

    def __init__(self, parts: StepParts, updates: Updates, whereabouts: Whereabouts) -> None:
        self._parts = parts
        self._updates = updates
        self._whereabouts = whereabouts
        self._ahead = False  # all workers are known to send their gradients ahead

    def go_ahead(self, setup: OptimizerSetup, unit: int) -> None:
        """The last unit of a step: its gradients may be reduced while its backward pass runs."""
        m, parts = self._parts.membership, self._parts
        if m.transport is None:
            return
        if self._ahead:
            m.yield_gradients()
        divide = parts.units.shares.counts[unit] if 0 in parts.recipe.sums else 1
        setup.reducer.go_ahead(unit, Ahead(m.transport, self._ahead, divide))

    def complete_order(self) -> None:
        """Members are about to meet elsewhere in the middle of a step: what some have sent ahead, all send now.

        All of them know whether anybody sends ahead, so either all do this or none.
        """
        m = self._parts.membership
        if self._ahead and self._parts.units.half_done and m.reduces_by is not None:
            self._parts.setups.current.reducer.complete(m.reduces_by)

    def forget_ahead(self) -> None:
        """Members have changed: newcomers have not heard who sends ahead."""
        self._ahead = False

    def hear_ahead(self, table: Table) -> None:
        """Whether all workers can send their gradients ahead from now on."""
        self._ahead = set(table.all(Column.AHEAD)) == {STEADY}

    def reduce(self) -> tuple[GradientVector, Table]:
        """The mean gradient and the table; twice in a step that changes what is trained.

        Workers must not meet in one collective with vectors of different sizes, so the first time all of them
        reduce as before, and the table tells whether they have changed alike.
        """
        parts = self._parts
        setup, changed = parts.setups.current, parts.setups.changed
        adaptation, said = parts.batching.adaptation, parts.times.said()
        row = parts.agreement.row(parts.position.step, setup.layout, adaptation, said)
        row.numbers[Column.TRAINED] = float((changed or setup).trained.mark)
        if changed is None:
            row.numbers[Column.AHEAD] = STALE if setup.reducer.stale else STEADY * setup.reducer.steady
        parts.skips.say(row.numbers, parts.units.shares)
        vector, table = self.exchange(setup, row)
        if len(set(table.all(Column.TRAINED))) > 1:
            raise TrainError(
                "workers do not train the same parameters: freeze, unfreeze and add parameters at the same place "
                "on every worker, not depending on job.rank"
            )
        if changed is None:
            return vector, table
        row = row.for_groups(len(changed.layout.groups))
        # Newcomers that follow have to be turned away first.
        row.numbers[Column.SWITCH] = row.numbers[Column.AT_LOOP] = 0.0
        row.numbers[Column.NOISE] = 0.0
        return self.exchange(changed, row)

    def exchange(self, setup: OptimizerSetup, row: Row) -> tuple[GradientVector, Table]:
        """One reduction over the layout of ``setup``, with this worker's row."""
        parts, m, feed = self._parts, self._parts.membership, self._parts.units.feed
        self._whereabouts.say(row.numbers, feed)
        m.doing("waiting", parts.position.step)
        # In a step that changes what is trained, statistics are of the layout before, and nobody reads the answer.
        silent = m.device.is_cpu or parts.setups.changed is not None
        question = NoQuestion() if silent else self._updates.question(parts.batching.adaptation)
        vector, table = exchange(m, setup, parts.units.shares, row, parts.host_tail, question)
        m.doing("outside", parts.position.step)  # nobody has to come for what is left of the step
        self._whereabouts.compare(table, m, feed)
        return vector, table
