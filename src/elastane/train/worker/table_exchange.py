"""One reduction: gradients, and behind them the table of all workers, buffers, and which gradients there are.

The tail begins with what the host writes and reads (``HostTail``): the table, which buffers are there, how often each
gradient was found.  Behind it lie the buffers' values, which never leave the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from elastane.train.device import Mark
from elastane.train.reduce.contract import Shares
from elastane.train.reduce.gradients import GradientVector
from elastane.train.worker.gearbox import Gear
from elastane.train.worker.host_tail import HostTail
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import Table, width


def exchange(
    membership: Membership, gear: Gear, shares: Shares, row: Sequence[float], host: HostTail
) -> tuple[GradientVector, Table]:
    """The mean gradient over all units, and the rows of all workers; raises MembershipChanged if the group breaks."""
    m = membership
    if m.world == 1:
        return _alone(m, gear, row, host)
    size = width(len(gear.layout.groups))
    table_size = m.world * size
    flags_end = table_size + gear.buffers.flags
    head = flags_end + gear.layout.count
    tail = gear.reducer.tail_of(head + gear.buffers.size)
    written = host.opened(tail, head)
    written[m.rank * size : (m.rank + 1) * size] = torch.tensor(row, dtype=tail.dtype)
    gear.layout.tell(written[flags_end:])
    if shares.owner[0] == m.rank:
        gear.buffers.tell(written[table_size:flags_end])
        gear.buffers.write(tail[head:])
    host.send(tail, head)
    vector = gear.reducer.reduce(m.transport, len(tail))
    read = host.fetched(vector.tail, head, m.believe)
    gear.buffers.read(read[table_size:flags_end].tolist(), vector.tail[head : len(tail)])
    gear.layout.hear(read[flags_end:].tolist())
    return vector, Table.read(read[:table_size], m.world)


def _alone(
    membership: Membership, gear: Gear, row: Sequence[float], host: HostTail
) -> tuple[GradientVector, Table]:
    """The same without others: nothing but the table has to travel."""
    tail = gear.reducer.tail_of(len(row))
    host.opened(tail, len(row))[:] = torch.tensor(row, dtype=tail.dtype)
    host.send(tail, len(row))
    vector = gear.reducer.reduce(membership.transport, len(row))
    read = host.fetched(vector.tail, len(row), Mark.wait)
    gear.buffers.take_kept()
    gear.layout.hear_only_own()
    return vector, Table.read(read, 1)
