"""Defines the contract that every scheduling policy fulfils, in the simulator and on a live cluster alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

from elastane.policies.plan import Plan
from elastane.policies.view import Info, View


@dataclass(frozen=True, slots=True)
class Needs:
    """What a policy reads and when it wants to be asked.

    ``period_s`` None means purely event-driven; a number is the default round length, which a run may override.
    ``rebatch`` lets jobs choose their own batch for the GPUs they get; otherwise they keep their owner's.
    ``profile`` has every job run for a few seconds on one GPU of each accelerator type before it starts, where the
    world can do that; it charges the time.
    ``types_apart`` False has a simulated job's model take all accelerator types for one, as published baselines do.
    ``oracle`` asks the simulator for the truth in place of estimates: such a policy is a bound, labelled so.
    """

    info: Info = Info.NONE
    period_s: float | None = None
    on_arrival: bool = True
    on_finish: bool = True
    oracle: bool = False
    rebatch: bool = False
    profile: bool = False
    types_apart: bool = True


@dataclass(frozen=True)
class Policy(ABC):
    """A pure decision function with parameters; its only memory is what it puts into its plans.

    Subclasses are frozen dataclasses: the fields are the parameters, with the paper's defaults.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[Needs]
    elastic: ClassVar[bool] = False
    starvation_free: ClassVar[bool] = False
    """Whether the policy promises that every job runs eventually under an endless stream of others."""

    @abstractmethod
    def decide(self, view: View) -> Plan:
        """Returns the complete desired state for this view; uses no clock, no I/O, no global randomness."""

    @property
    def ends_jobs(self) -> bool:
        """Tells whether a REJECT ends a job that has run; otherwise it concerns only jobs that never ran."""
        return False

    def parameters(self) -> dict[str, object]:
        """Parameter values, for reports and for the cache key."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def label(self) -> str:
        """The name as a user would write it, with parameters that differ from the defaults."""
        changed = [
            f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default
        ]
        return f"{self.name}({','.join(changed)})" if changed else self.name
