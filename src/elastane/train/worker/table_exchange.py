"""One reduction: gradients, and behind them the table of all workers, buffers, and which gradients there are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from elastane.train.reduce.contract import Shares
from elastane.train.reduce.gradients import GradientVector
from elastane.train.worker.gearbox import Gear
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import Table, width


def exchange(
    membership: Membership, gear: Gear, shares: Shares, row: Sequence[float]
) -> tuple[GradientVector, Table]:
    """The mean gradient over all units, and the rows of all workers; raises MembershipChanged if the group breaks."""
    m = membership
    if m.world == 1:
        return _alone(m, gear, row)
    size = width(len(gear.layout.groups))
    table_size = m.world * size
    buffers_end = table_size + gear.buffers.size
    tail = gear.reducer.tail_of(buffers_end + gear.layout.count)
    tail[m.rank * size : (m.rank + 1) * size] = torch.tensor(row, dtype=tail.dtype)
    if shares.owner[0] == m.rank:
        gear.buffers.write(tail[table_size:buffers_end])
    gear.layout.tell(tail[buffers_end:])
    vector = gear.reducer.reduce(m.group, len(tail))
    gear.buffers.read(vector.tail[table_size:buffers_end])
    gear.layout.hear(vector.tail[buffers_end : len(tail)])
    return vector, Table.read(vector.tail[:table_size], m.world)


def _alone(membership: Membership, gear: Gear, row: Sequence[float]) -> tuple[GradientVector, Table]:
    """The same without others: nothing but the table has to travel."""
    tail = gear.reducer.tail_of(len(row))
    tail[:] = torch.tensor(row, dtype=tail.dtype)
    vector = gear.reducer.reduce(membership.group, len(row))
    gear.buffers.take_kept()
    gear.layout.hear_only_own()
    return vector, Table.read(vector.tail[: len(row)], 1)
