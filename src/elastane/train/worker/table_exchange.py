"""One reduction: gradients, and behind them the table of all workers, buffers, and which gradients there are.

The tail begins with what the host writes and reads (``HostTail``): the table, which buffers are there, how often each
gradient was found.  Behind it lie the buffers' values, which never leave the device.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from elastane.train.device import Mark
from elastane.train.reduce.contract import Shares
from elastane.train.reduce.gradients import GradientVector
from elastane.train.worker.host_tail import HostTail
from elastane.train.worker.membership import Membership
from elastane.train.worker.optimizer_setup import OptimizerSetup
from elastane.train.worker.piggyback_table import STALE, Column, Row, Table, width


class Question(Protocol):
    """What is asked of the mean gradient while it is on its device."""

    def ask(self, gradients: Tensor) -> Tensor | None:
        """Numbers that travel to the host with the tail."""
        ...

    def hear(self, rows: list[list[float]]) -> None:
        """They have arrived, and the reduction is to be believed."""
        ...


class NoQuestion:
    """A question that asks for nothing: the step is not measured."""

    def ask(self, gradients: Tensor) -> Tensor | None:  # noqa: ARG002
        """No numbers travel beside the tail."""
        return None

    def hear(self, rows: list[list[float]]) -> None:
        """No numbers come, so none are taken in."""


def exchange(
    membership: Membership, setup: OptimizerSetup, shares: Shares, row: Row, host: HostTail, question: Question
) -> tuple[GradientVector, Table]:
    """The mean gradient over all units, and the rows of all workers; raises MembershipChanged if the group breaks."""
    m = membership
    if m.world == 1:
        return _alone(m, setup, row, host, question)
    size = width(len(setup.layout.groups))
    table_size = m.world * size
    flags_end = table_size + setup.buffers.flags
    head = flags_end + setup.layout.count
    tail = setup.reducer.tail_of(head + setup.buffers.size)
    written = host.opened(tail, head)
    own = m.rank * size
    written[own : own + size] = torch.tensor(row.numbers, dtype=tail.dtype)
    setup.layout.tell(written[flags_end:])
    if shares.owner[0] == m.rank:
        setup.buffers.tell(written[table_size:flags_end])
        setup.buffers.write(tail[head:])
    host.send(tail, head)
    _put_there(tail[own:], row)
    vector = setup.reducer.reduce(m.reduces_by, len(tail))
    asked = question.ask(vector.gradients)
    read, answer = host.fetched(vector.tail, head, m.believe, asked)
    table = Table.read(read[:table_size], m.world)
    if STALE in table.all(Column.AHEAD):
        assert m.reduces_by is not None
        vector = setup.reducer.repeat(m.reduces_by)
        asked = question.ask(vector.gradients)
        read, answer = host.fetched(vector.tail, head, m.believe, asked)
    setup.reducer.believed()
    if answer is not None:
        question.hear(answer.tolist())
    setup.buffers.read(read[table_size:flags_end].tolist(), vector.tail[head : len(tail)])
    setup.layout.hear(read[flags_end:].tolist())
    return vector, table


def _put_there(tail: Tensor, row: Row) -> None:
    for at, values in row.there:
        tail[at : at + len(values)].copy_(values)


def _alone(
    membership: Membership, setup: OptimizerSetup, row: Row, host: HostTail, question: Question
) -> tuple[GradientVector, Table]:
    """The same without others: nothing but the table has to travel."""
    size = len(row.numbers)
    tail = setup.reducer.tail_of(size)
    host.opened(tail, size)[:] = torch.tensor(row.numbers, dtype=tail.dtype)
    host.send(tail, size)
    _put_there(tail, row)
    vector = setup.reducer.reduce(membership.reduces_by, size)
    asked = question.ask(vector.gradients)
    read, answer = host.fetched(vector.tail, size, Mark.wait, asked)
    if answer is not None:
        question.hear(answer.tolist())
    setup.buffers.take_kept()
    setup.layout.hear_only_own()
    return vector, Table.read(read, 1)
