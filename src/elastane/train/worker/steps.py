"""``Steps`` is what a loop asks of its way to make steps: one optimizer step per batch, or several phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from elastane.train.worker.crew import LoopCrew
from elastane.train.worker.script_body import ScriptBody
from elastane.train.worker.step_commit import StepCommit
from elastane.train.worker.step_plan import StepPlan
from elastane.train.worker.step_reduction import StepReduction
from elastane.train.worker.update import Updates


@dataclass(frozen=True, slots=True)
class StepTools:
    """What plans, computes, reduces and applies a step."""

    crew: LoopCrew
    body: ScriptBody
    plan: StepPlan
    reduction: StepReduction
    updates: Updates
    commit: StepCommit


class Steps(Protocol):
    """The steps of one worker, from their first unit to their end."""

    completing: bool
    """Whether the units are computed and the step is being made."""
    applying: bool
    """Whether the optimizer may have begun to change parameters."""

    def settle(self) -> None:
        """Train what is selected now; all workers are known to."""
        ...

    def members_changed(self) -> None:
        """Ranks and shares are new."""
        ...

    def begin(self) -> None:
        """Plan a new step."""
        ...

    def next_unit(self) -> tuple[int, int] | None:
        """(offset, samples) in the step's block of the unit to compute now; None when the step is done."""
        ...

    def stepping(self, number: int) -> bool:
        """The body has called ``step()`` of an optimizer; True if that was a real step."""
        ...

    def drop(self) -> None:
        """The script has left its loop without stepping on what it was given."""
        ...

    @property
    def half_done(self) -> bool:
        """Whether some parts of a step have been computed and others have not."""
        ...

    @property
    def in_body(self) -> bool:
        """Whether the script is in a loop body whose step is not complete."""
        ...

    @property
    def step_due(self) -> bool:
        """Whether the next call of ``step()`` is a real one, as far as this worker knows."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What was made of the step under way."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        ...
