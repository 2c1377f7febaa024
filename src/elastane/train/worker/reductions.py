"""``job.all_reduce``: a number or small tensor is reduced over all workers, with one result that all of them have.

In the loop body the script's values belong to parts of a batch.  They are kept by part until the step is whole and
then reduced over all parts, means weighted by samples, so the result does not depend on who computed what.
Elsewhere each worker has one value.  What all have to add up is a table with a row per value, so that everybody
combines the same rows in the same order.

Results are kept under the place they were asked for (as those of ``LeaderResults``): a worker that is behind, or
runs the script again up to its position, gets the one there was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from elastane.suggest import did_you_mean
from elastane.train.errors import TrainError
from elastane.train.reduce.contract import Shares
from elastane.train.worker.membership import Membership
from elastane.train.worker.position import Position
from elastane.train.worker.same_place import same_everywhere
from elastane.train.worker.script_collective import ScriptCollectives

LARGEST = 1 << 16
"""Numbers in one value: results travel with the state."""


def _mean(rows: Tensor, weights: Tensor) -> Tensor:
    if bool((weights == weights[0]).all()):
        return rows.sum(0) / len(rows)
    return (rows * weights[:, None]).sum(0) / weights.sum()


_WAYS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "sum": lambda rows, _: rows.sum(0),
    "max": lambda rows, _: rows.amax(0),
    "min": lambda rows, _: rows.amin(0),
}


@dataclass(frozen=True, slots=True)
class _Value:
    """What a script gave: flat and in double precision, and how to give a result back."""

    flat: Tensor
    like: Tensor | int | float
    how: str

    @classmethod
    def of(cls, value: Any, how: str) -> _Value:
        if how not in _WAYS:
            raise TrainError(
                f"job.all_reduce: there is no {how!r}{did_you_mean(how, list(_WAYS))} (known: {', '.join(_WAYS)})"
            )
        if not isinstance(value, Tensor) and hasattr(value, "item") and not getattr(value, "ndim", 0):
            value = value.item()
        if not isinstance(value, Tensor | int | float) or (isinstance(value, Tensor) and value.is_complex()):
            raise TrainError(
                f"job.all_reduce: give a number or a tensor of numbers, not {type(value).__name__}"
            )
        tensor = value.detach() if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
        if not 0 < tensor.numel() <= LARGEST:
            raise TrainError(
                f"job.all_reduce: a tensor of {tensor.numel()} numbers; it is meant for figures, up to {LARGEST}"
            )
        return cls(tensor.reshape(-1).to("cpu", torch.float64), value, how)

    @property
    def mark(self) -> str:
        """What must be the same on all workers."""
        return f"{self.how} {list(self.like.shape) if isinstance(self.like, Tensor) else 'number'}"

    def given_back(self, result: Tensor) -> Any:
        """A result in the shape and type of the value; the mean of whole numbers is not whole."""
        if not isinstance(self.like, Tensor):
            number = float(result)
            return round(number) if self.how != "mean" and isinstance(self.like, int) else number
        whole = not self.like.dtype.is_floating_point
        kind = torch.get_default_dtype() if whole and self.how == "mean" else self.like.dtype
        return result.to(self.like.device, kind if kind is not torch.bool else torch.int64).view(
            self.like.shape
        )


class CallCounter:
    """Numbers the calls made at each place of a script, so that a worker which runs it again counts alike."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def next(self, place: str) -> int:
        """The number of this call, from 0, among those made there; forgets other places of its kind."""
        kind = place.split()[0]
        kept = {name: count for name, count in self._counts.items() if name.split()[0] != kind or name == place}
        number = kept.get(place, -1) + 1
        self._counts = {**kept, place: number}
        return number


class Body(Protocol):
    """The loop body, as far as reductions in it need to know."""

    @property
    def unit_open(self) -> bool:
        """Whether the script has not called ``opt.step()`` yet."""
        ...

    turn: int
    """Bodies begun so far."""
    begun: int
    """The step that is computed, or just completed."""
    shares: Shares
    """How that step is cut into units."""
    last_unit: int | None
    """The unit that ended last, unless it has to be computed again."""
    stepped: bool
    """Whether the last ``opt.step()`` completed the step."""


class Reductions:
    """One worker's part in the reductions that its script asks for."""

    def __init__(
        self, membership: Membership, position: Position, collectives: ScriptCollectives, body: Body
    ) -> None:
        self._membership = membership
        self._position = position
        self._collectives = collectives
        self._body = body
        self._calls = CallCounter()
        self._results: dict[str, dict[str, Tensor]] = {}
        self._parts: dict[int, dict[int, Tensor]] = {}
        self._parts_of = -1

    def reduce(self, value: Any, how: str, place: str) -> Any:
        """Reduce ``value`` over the workers; ``place`` is where the script is, if not in a loop body."""
        given, body = _Value.of(value, how), self._body
        if not self._position.inside:
            rows = {-1: given.flat}
            return given.given_back(self._result(place, self._calls.next(place), given, rows))
        if body.unit_open:
            raise TrainError(
                "job.all_reduce(...) was called before opt.step(): until then workers may have different numbers of "
                "parts to compute; call it behind opt.step(), or behind the loop"
            )
        call = self._calls.next(f"turn {body.turn}")
        if self._parts_of != body.begun:
            self._parts, self._parts_of = {}, body.begun
        parts = self._parts.setdefault(call, {})
        if body.last_unit is not None:
            parts[body.last_unit] = given.flat
        if not body.stepped:
            return value
        return given.given_back(self._result(f"step {body.begun}", call, given, parts))

    def keep(self, units: Collection[int]) -> None:
        """A step is computed again: of what this worker had, only these units count."""
        self._parts = {
            call: {unit: value for unit, value in parts.items() if unit in units}
            for call, parts in self._parts.items()
        }

    def _result(self, place: str, call: int, given: _Value, rows: Mapping[int, Tensor]) -> Tensor:
        """The result for this call; made together with all others unless it is there already."""
        key = str(call)

        def attempt() -> None:
            self._store(place, key, self._together(f"{place} {call} {given.mark}", given, rows))

        if not self._collectives.until(lambda: key in self._results.get(place, {}), attempt):
            return given.flat
        return self._results[place][key]

    def _together(self, mark: str, given: _Value, rows: Mapping[int, Tensor]) -> Tensor:
        m = self._membership
        if -1 in rows:
            counts: Sequence[int] = [1] * m.world
            rows = {m.rank: rows[-1]}
        else:
            counts = self._body.shares.counts
        table = torch.zeros(len(counts), 1 + len(given.flat), dtype=torch.float64)
        for row, values in rows.items():
            table[row, 0], table[row, 1:] = 1.0, values
        if m.group is not None:
            self._compare(mark)
            m.group.all_reduce(table)
        weights = torch.tensor(counts, dtype=torch.float64) * table[:, 0]
        if not weights.any():  # those who had samples are lost
            weights = table[:, 0]
        there = weights > 0
        return _WAYS[given.how](table[there, 1:], weights[there])

    def _compare(self, mark: str) -> None:
        """Workers must not meet in one collective with tables of different sizes."""
        if not same_everywhere(self._membership, mark):
            raise TrainError(
                "workers do not call job.all_reduce(...) alike: call it at the same place on all, equally often, "
                "with values of the same shape"
            )

    def _store(self, place: str, key: str, result: Tensor) -> None:
        """Keep a result; those of earlier steps and epochs are not asked for any more."""
        kind = place.split()[0]
        kept = {
            name: found for name, found in self._results.items() if name.split()[0] != kind or name == place
        }
        self._results = {**kept, place: {**kept.get(place, {}), key: result}}

    def state_dict(self) -> dict[str, Any]:
        """Results that workers which are behind may ask for."""
        return {"results": self._results}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the results that another worker had."""
        self._results = {place: dict(found) for place, found in state["results"].items()}
