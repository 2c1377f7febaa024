"""One worker's training loop, turned inside out: the script pulls units, this decides what they mean.

A step has units; each owned unit is one pass through the script's loop body.  Between steps lies the *boundary*.
The loop holds the parts that plan, compute, reduce and apply a step, and puts them together: it is complete when made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elastane.train.adapt.controller import Adaptation
from elastane.train.errors import MembershipChanged
from elastane.train.reduce.contract import Reducer
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.reduce.mean import MeanReducer
from elastane.train.reduce.ordered import OrderedReducer
from elastane.train.traffic import Traffic
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.batching import Batching
from elastane.train.worker.boundary import Boundary
from elastane.train.worker.checkpoint_schedule import CheckpointSchedule
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.crew import LoopCrew, LoopHooks
from elastane.train.worker.host_tail import HostTail
from elastane.train.worker.leader_duties import Host, LeaderDuties
from elastane.train.worker.leader_results import LeaderResults
from elastane.train.worker.membership import Membership
from elastane.train.worker.optimizer_setup import OptimizerSetups
from elastane.train.worker.phased import PhasedSteps
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.reductions import Reductions
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.script_body import ScriptBody
from elastane.train.worker.script_collective import ScriptCollectives
from elastane.train.worker.single_steps import SingleSteps
from elastane.train.worker.skipped_units import SkippedParts
from elastane.train.worker.step_commit import StepCommit
from elastane.train.worker.step_cut import Feed, LoopSettings
from elastane.train.worker.step_parts import StepParts
from elastane.train.worker.step_plan import StepPlan
from elastane.train.worker.step_reduction import StepReduction
from elastane.train.worker.step_times import StepTimes
from elastane.train.worker.step_units import StepUnits
from elastane.train.worker.steps import Steps, StepTools
from elastane.train.worker.telemetry import Reporter
from elastane.train.worker.update import Updates
from elastane.train.worker.whereabouts import Whereabouts


def reducer_of(settings: LoopSettings, recipe: Recipe, layout: GradientLayout) -> Reducer:
    """The reducer that keeps the promise of a mode."""
    if settings.mode is Mode.CONSISTENT:
        return OrderedReducer(layout, settings.units(recipe))
    return MeanReducer(layout, narrow=settings.traffic is Traffic.BF16)


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What exists before training begins, and is put together in the loop."""

    settings: LoopSettings
    recipe: Recipe
    membership: Membership
    state: TrainingState
    reporter: Reporter
    position: Position
    agreement: Agreement
    checkpoints: CheckpointSchedule | None = None
    host: Host = field(default_factory=Host)


class Loop:
    """The step engine of one worker; made when the script has named everything, complete when made."""

    def __init__(self, parts: LoopParts) -> None:
        settings, recipe, membership = parts.settings, parts.recipe, parts.membership
        state, reporter, host = parts.state, parts.reporter, parts.host
        way = PhasedSteps if recipe.phased else SingleSteps
        self.membership = membership
        self.setups = OptimizerSetups(state, lambda layout: reducer_of(settings, recipe, layout))
        self.host_tail = HostTail(membership.device)
        self._position = position = parts.position
        self._agreement = agreement = parts.agreement
        self._skips = SkippedParts()
        self._units = StepUnits(way.leave_by)
        self.batching = Batching(membership, agreement)
        self._consistent = settings.mode is Mode.CONSISTENT
        step = StepParts(
            settings,
            recipe,
            membership,
            reporter,
            position,
            agreement,
            self.setups,
            self._skips,
            self._units,
            self.batching,
            StepTimes(membership.device),
            self.host_tail,
        )
        updates = Updates(settings, recipe, membership, state, reporter)
        self._reduction = reduction = StepReduction(step, updates, Whereabouts(way.leave_by))
        self.crew = LoopCrew(
            state, position, self.setups, recipe, membership, reporter, host, self._hooks(settings)
        )
        self._boundary = Boundary(step, self.crew, LeaderDuties(membership, reporter, parts.checkpoints, host))
        collectives = ScriptCollectives(
            membership,
            position,
            self._skips,
            self.crew,
            self._boundary.meet_the_absent,
            reduction.complete_order,
        )
        self._results = LeaderResults(membership, collectives)
        self.reductions = Reductions(membership, position, collectives, self._units)
        self._body = body = ScriptBody(step)
        plan, commit = StepPlan(step, self.reductions), StepCommit(step, body, reduction, updates)
        self._steps: Steps = way(step, StepTools(self.crew, body, plan, reduction, updates, commit))
        state.select(self.setups.selection(self._steps.settle))

    def _hooks(self, settings: LoopSettings) -> LoopHooks:
        mode, seed, virtual = settings.mode.value, settings.seed, settings.virtual
        # Bits are those of a kind of device; means are equal up to rounding on any.
        same = self.membership.device.signature() if self._consistent else {}
        return LoopHooks(
            {"mode": mode, "seed": seed, "virtual": virtual, "traffic": settings.traffic.value, **same},
            lambda: self._units.begun == self._position.step,
            self._members_changed,
        )

    def adapt(self, adaptation: Adaptation) -> None:
        """From now on batch and learning rate are this one's."""
        self.batching.adapt(adaptation)

    @property
    def adaptation(self) -> Adaptation | None:
        """Batch and learning rate, once there is a loader."""
        return self.batching.adaptation

    def join(self) -> None:
        """Become a member; a state that was taken over is that of a script further on."""
        self.membership.join(self.crew)
        self._position.fall_behind(self._position.tick > 0)
        self.batching.resplit()

    def _members_changed(self) -> None:
        """Ranks, shares and the split of the batch are new."""
        self._reduction.forget_ahead()
        self._skips.take_source()  # whoever was ahead has passed its state on
        self.batching.resplit()
        self._steps.members_changed()

    # A step.

    def boundary(self, *, loop_begins: bool) -> None:
        """The only place where members change and state is whole."""
        self._boundary.cross(loop_begins=loop_begins)

    def begin(self, feed: Feed) -> bool:
        """Begin a step on the next samples of a loader; False when its pass is over."""
        self._units.take_from(feed)
        self._steps.begin()
        return self._units.shares.total > 0

    def next_unit(self) -> tuple[int, int] | None:
        """(offset, samples) in the step's block of the unit to compute now; None when the step is done."""
        return self._steps.next_unit()

    def stepping(self, number: int) -> bool:
        """The body has called ``step()`` of an optimizer; True if that was a real step."""
        return self._steps.stepping(number)

    def unit_done(self) -> bool:
        """The body has called ``step()`` of the only optimizer; True if that was a real step."""
        return self._steps.stepping(0)

    def drop(self) -> None:
        """The script has left its loop without stepping on what it was given."""
        self._steps.drop()

    @property
    def stepped(self) -> bool:
        """Whether the last ``opt.step()`` was a real one."""
        return self._units.stepped

    @property
    def half_done(self) -> bool:
        """Whether some units of a step have been computed and others have not."""
        return self._steps.half_done

    @property
    def step_due(self) -> bool:
        """Whether the unit that is computed now is this worker's last one of the step."""
        return self._steps.step_due

    def spans_ahead(self, position: int) -> list[tuple[int, int]]:
        """What this worker will fetch in this step and, if nothing changes, in the next."""
        return self._units.spans_ahead(position)

    def from_leader(self, key: str, compute: Callable[[], Any]) -> Any:
        """The leader's result (JSON values) on all workers; the one there was, if ``key`` is known already."""
        return self._results.get(key, compute)

    # The end, and the state.

    def memory_ran_out(self, *, in_step: bool) -> None:
        """The script ends for lack of memory: what the coordinator has to know, and the state if nobody else has it.

        The step under way has changed nothing but buffers, unless the optimizer has begun with it.
        """
        steps = self._steps
        if not in_step and not steps.in_body and not steps.completing:
            self.membership.parts(0)
        elif not steps.applying and not self._consistent:
            self._boundary.rescue()

    def finish(self) -> None:
        """The end of training: nobody leaves while another may still need his part of the last step."""
        self._body.ends()
        with contextlib.suppress(MembershipChanged):  # the script may have ended in the middle of a step
            self._reduction.complete_order()
        self._boundary.end()

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands, within a step as well, and what workers have agreed on."""
        told, total = self._results.known, self._agreement.total
        return {**self._position.state_dict(), "told": told, "total": total, **self._steps.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self._position.load_state_dict(state)
        self._results.replace(state["told"])
        self._agreement.resume(int(state["total"]))
        self._steps.load_state_dict(state)
