"""Members tell each other in passing by a small table behind the gradients, with one row per rank.

Each member fills in its own row, the others are zero, so the sum that reduces the gradients gathers the
table, exactly.  Decisions read from it are the same everywhere, at the same step, without another message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from torch import Tensor

from elastane.models.noise import NoiseScale


class Column(IntEnum):
    """The columns; numbers are exact below 2**24.  Norms of the parameter groups follow."""

    SWITCH = 0
    """Leader: the generation to enter after this step."""
    STOP = 1
    """Anybody: leave after this step."""
    PER_WORKER = 2
    """Leader: samples per unit from the next step on (adaptive mode)."""
    ACCUMULATION = 3
    STRIDE = 4
    """Leader: gradient statistics are measured every so many steps."""
    TRIAL = 5
    """Leader: try whether this many samples fit into memory."""
    FITS = 6
    """Anybody: the largest number of samples known to fit here (0: no limit met)."""
    DIGEST_HIGH = 7
    DIGEST_LOW = 8
    COMPUTE_S = 9
    LOSS = 10
    """Sum of reported losses since the last step, and their number."""
    LOSSES = 11
    UNITS = 12
    """Units computed in this step."""
    NOISE = 13
    """Leader: how many samples its gradient noise is an average of."""
    TRAINED = 14
    """Which parameters this worker trains (``TrainedParameters.mark``)."""
    SKIPPED = 15
    """Samples of parts that the script skipped here, and whether it never came by ``opt.step()`` (``skipping``)."""
    ABSENT = 16
    AHEAD = 17
    """Whether gradients come alike here, so that they can be sent ahead (1), or some were that are not final (2)."""
    PLACE = 18
    """A mark of where the script is, and whether it came into its loop in the middle (``whereabouts``)."""
    NEW = 19
    AT_LOOP = 20
    """Leader: the generation to enter where the next loop over the data begins."""


STEADY, STALE = 1.0, 2.0
"""Values of ``Column.AHEAD``."""

FIXED = len(Column)


def width(groups: int) -> int:
    """Numbers in a row: the columns, then per parameter group a norm and the leader's noise (sqr, var)."""
    return FIXED + 3 * groups


@dataclass(slots=True)
class Row:
    """What one member says: numbers of the host, and over them some that only its device knows yet."""

    numbers: list[float]
    there: list[tuple[int, Tensor]] = field(default_factory=list)
    """Tensors of one dimension, each with the column at which it begins."""

    def put(self, at: int, values: Tensor) -> None:
        """Say these numbers, which the host will not see before the reduction."""
        self.there.append((at, values))

    def for_groups(self, groups: int) -> Row:
        """The columns alone, for a reduction with another number of parameter groups."""
        numbers = self.numbers[:FIXED] + [0.0] * (width(groups) - FIXED)
        return Row(numbers, [(at, values) for at, values in self.there if at < FIXED])


@dataclass(frozen=True, slots=True)
class Table:
    """All rows, after the reduction."""

    rows: list[list[float]]

    @classmethod
    def read(cls, tail: Tensor, world: int) -> Table:
        """The table that a tail holds."""
        return cls(tail.view(world, -1).tolist())

    @classmethod
    def summed(cls, tables: Sequence[Table]) -> Table:
        """The columns of several tables of the same members, added up."""
        ranks = zip(*(table.rows for table in tables), strict=True)
        return cls([[sum(row[column] for row in rows) for column in Column] for rows in ranks])

    def leader(self, column: Column) -> int:
        """A whole number that the leader wrote."""
        return round(self.rows[0][column])

    def all(self, column: Column) -> list[float]:
        """One column, by rank."""
        return [row[column] for row in self.rows]

    def any(self, column: Column) -> bool:
        """Whether anybody raised this flag."""
        return any(row[column] for row in self.rows)

    def norms(self) -> list[float]:
        """Sum over all ranks of the squared norms, per parameter group."""
        columns = zip(*(row[FIXED : FIXED + self._groups] for row in self.rows), strict=True)
        return [sum(values) for values in columns]

    def noise(self, batch0: int) -> NoiseScale:
        """The leader's gradient noise, so that all workers derive the same progress and learning rate from it."""
        row, groups = self.rows[0], self._groups
        if not row[Column.NOISE]:
            return NoiseScale(batch0)
        sqr, var = row[FIXED + groups : FIXED + 2 * groups], row[FIXED + 2 * groups :]
        return NoiseScale(batch0, tuple(sqr), tuple(var), weight=1.0, count=round(row[Column.NOISE]))

    @property
    def _groups(self) -> int:
        return (len(self.rows[0]) - FIXED) // 3

    def diverging(self) -> list[int]:
        """Ranks whose digest differs from that of most (from the leader's, in doubt)."""
        digests = [(row[Column.DIGEST_HIGH], row[Column.DIGEST_LOW]) for row in self.rows]
        common = max(digests, key=lambda d: (digests.count(d), d == digests[0]))
        return [rank for rank, digest in enumerate(digests) if digest != common]
