"""``Boundary`` is the moment between two steps: members change, checkpoints are taken, and nothing is half done."""

from __future__ import annotations

from elastane.train.errors import MembershipChanged, Released
from elastane.train.worker.crew import LoopCrew
from elastane.train.worker.leader_duties import LeaderDuties
from elastane.train.worker.step_parts import StepParts


class Boundary:
    """What one worker does between its steps, and behind the last one."""

    def __init__(self, parts: StepParts, crew: LoopCrew, leader: LeaderDuties) -> None:
        self._parts = parts
        self._crew = crew
        self._leader = leader

    def cross(self, *, loop_begins: bool) -> None:
        """The only place where members change and state is whole."""
        m, agreement, position = self._parts.membership, self._parts.agreement, self._parts.position
        m.doing("outside", position.step)
        self.meet_the_absent()
        if m.world == 1:
            agreement.alone()
        if agreement.stop:
            self._leader.save(position, wait=True)
            raise Released(m.stop_cause() or "asked to stop")
        generation = agreement.take_generation(loop_begins=loop_begins)
        if generation:
            m.switch(generation, self._crew)
        m.boundary(self._crew)
        self._leader.between_steps(position, self._parts.batching.adaptation)

    def meet_the_absent(self) -> None:
        """Workers that skipped all of their parts take over the step, and what the others did behind it.

        All workers meet at the first place behind the step where they would talk to each other anyway.
        """
        m, skips = self._parts.membership, self._parts.skips
        source = skips.take_source()
        if source is None or m.group is None:
            return
        try:
            skips.meet(m)
            self._crew.state.share(m.group, source)
        except MembershipChanged as error:
            m.recover(self._crew, str(error), 0.0)

    def rescue(self) -> None:
        """Save the state before the step under way, of which the script cannot make the rest."""
        self._crew.rewind()
        self._leader.save(self._parts.position, wait=True)

    def end(self) -> None:
        """Training ends behind this step; nobody leaves while another may still need his part of it."""
        m, position = self._parts.membership, self._parts.position
        m.doing("outside", position.step)
        self.meet_the_absent()
        self._leader.at_the_end(position)
        m.finish(position.step)
