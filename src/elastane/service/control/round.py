"""When to ask the policy, about what, and what to remember of its answer."""

from __future__ import annotations

import logging

from elastane.policies.contract import Policy
from elastane.scheduling.decide import Decision
from elastane.scheduling.facts import Situation
from elastane.scheduling.record import decision_to_json, plain, view_to_json
from elastane.service.control.active_job import places_of
from elastane.service.control.apply import Applying
from elastane.service.control.containment import SERVICE_WIDE
from elastane.service.control.facts import Seen, build_view
from elastane.service.control.requested_places import unmet, waits, words
from elastane.service.store import Transaction

log = logging.getLogger("elastane")


class Dividing(Applying):
    """A control plane that decides."""

    def situation(self, memory: object, trigger: str) -> Situation:
        """What a decision would be made from now, besides the jobs."""
        return Situation(
            now_s=self.clock(),
            nodes=self.nodes(),
            trigger=trigger,
            memory=memory,
            seed=self.settings.seed,
            decisions=self.rounds.count,
            finished_service_gpu_s=self.store.finished_service(),
            min_run_s=self.settings.min_run_s,
        )

    def seen_by(
        self, policy: Policy, memory: object, trigger: str, patient: frozenset[str] = frozenset()
    ) -> Seen:
        """What this policy may see now; jobs of which no view can be made are set aside first."""
        quotas = {quota.tenant: quota for quota in self.store.quotas()}
        try:
            return build_view(self.situation(memory, trigger), quotas, self.live.values(), policy, patient)
        except SERVICE_WIDE:
            raise
        except Exception:
            if not self.set_aside_unreadable():
                raise
            return build_view(self.situation(memory, trigger), quotas, self.live.values(), policy, patient)

    async def _decide(self, trigger: str) -> None:
        now = self.clock()
        self.rounds.due_s = now + (self.settings.interval_s or self.policy.needs.period_s or 30.0)
        self.rounds.wake_s = ()
        if not self.live:
            return
        policy, shadow = self.policy, self.shadow
        seen = self.seen_by(policy, self.rounds.memory, trigger)
        answer = await self._runner.ask(policy, seen.view)
        patient = self._left_without(answer)
        if patient:
            seen = self.seen_by(policy, self.rounds.memory, trigger, patient)
            answer = await self._runner.ask(policy, seen.view)
        # The same situation for both: the one before anything is done about it.
        other = None if shadow is None else self.seen_by(shadow.policy, shadow.memory, trigger, patient)
        if self.policy is not policy:
            return  # its memory would mean nothing to the other, which is asked next
        if isinstance(answer, str):
            self.rounds.problem = answer
            log.warning("%s", answer)
        else:
            self._adopt(answer, seen)
        self._ensure_all()
        if shadow is not None and other is not None and isinstance(answer, Decision):
            shadow.compare(await self._runner.ask(shadow.policy, other.view), answer.grants)

    def _left_without(self, answer: Decision | str) -> frozenset[str]:
        """Jobs that would be suspended only because their owners want them larger, or elsewhere."""
        if isinstance(answer, str):
            return frozenset()
        return unmet(self.live.values(), answer.grants, self._nodes) - answer.ended.keys()

    def _adopt(self, answer: Decision, seen: Seen) -> None:
        rounds = self.rounds
        kept = plain({"policy": self.policy.label(), "memory": answer.plan.memory})
        remembers = kept["memory"] != rounds.memory
        rounds.count += 1
        rounds.last_ms, rounds.problem, rounds.memory = answer.took_ms, "", kept["memory"]
        rounds.wake_s = tuple(answer.plan.wake_s)
        reasons = {**answer.waiting, **seen.withheld}
        for job in self.live.values():
            job.waiting = self.told(job, reasons.get(job.id, "")) if job.row.grant is None else ""
            if waits(job):
                job.waiting = words(job, list(self.live.values()), self._nodes)
        with self.changing() as t:
            changed = self._apply(t, answer, seen.withheld)
            if remembers:
                t.set_setting("memory", kept)
            if changed:
                self._record_decision(t, answer, seen, changed)
        for refused in [job for job in self.live.values() if job.row.terminal]:
            del self.live[refused.id]

    def _record_decision(self, t: Transaction, answer: Decision, seen: Seen, changed: list[str]) -> None:
        """So that it can be made again (``elastane replay``)."""
        label, view = self.policy.label(), seen.view
        plan = decision_to_json(answer)
        number = t.add_decision(policy=label, view=view_to_json(view), plan=plan, took_ms=answer.took_ms)
        grants = {job: places_of(grant) for job, grant in answer.grants.items()}
        body = {
            "number": number,
            "trigger": view.trigger,
            "policy": label,
            "grants": grants,
            "changed": changed,
        }
        t.append_event("decision", None, {**body, "took_ms": round(answer.took_ms, 3)})
