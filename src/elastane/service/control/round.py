"""A decision round decides when the policy is asked, about what, and what is remembered of its answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from elastane.engines.contract import places_of
from elastane.policies.contract import Policy
from elastane.scheduling.decide import Decision
from elastane.scheduling.facts import Situation
from elastane.scheduling.record import decision_to_json, plain, view_to_json
from elastane.service.control.apply import GrantApplier
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.containment import SERVICE_WIDE, Containment
from elastane.service.control.engine_driver import EngineDriver
from elastane.service.control.facts import AdjustedView, build_view
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.policy_runner import PolicyRunner, ShadowPolicy
from elastane.service.control.requested_places import unmet, waits, words
from elastane.service.control.settings import ControlSettings
from elastane.service.control.slots_in_use import SlotsInUse
from elastane.service.store import Transaction

log = logging.getLogger("elastane")


@dataclass(slots=True)
class Rounds:
    """What is known of decisions so far, and when the next is due."""

    memory: object = None
    """What the policy's last plan asked to keep."""
    count: int = 0
    last_ms: float | None = None
    problem: str = ""
    due_s: float = 0.0
    wake_s: tuple[float, ...] = ()

    def is_due(self, now_s: float) -> bool:
        """Whether a decision is to be made without anything having happened."""
        return now_s >= self.due_s or any(now_s >= moment for moment in self.wake_s)

    def next_s(self) -> float:
        """The earliest of all appointments: when a decision is due unless something happens before."""
        return min((self.due_s, *self.wake_s))

    def set_back(self, by_s: float) -> None:
        """Keep the appointments on a clock that was set back."""
        self.due_s -= by_s
        self.wake_s = tuple(moment - by_s for moment in self.wake_s)


class DecisionRound:
    """Asks the policy about what there is, and has its answer applied and recorded."""

    def __init__(
        self,
        settings: ControlSettings,
        ledger: Ledger,
        cluster: ClusterState,
        runner: PolicyRunner,
        applier: GrantApplier,
        driver: EngineDriver,
        containment: Containment,
        clock: Clock,
        policy: Policy,
        shadow: ShadowPolicy | None = None,
    ) -> None:
        self._settings, self._ledger, self._cluster, self._clock = settings, ledger, cluster, clock
        self._runner, self._applier, self._driver, self._containment = runner, applier, driver, containment
        self._policy, self._shadow = policy, shadow
        self._unplaced: frozenset[str] = frozenset()
        self._rounds = Rounds(remembered(ledger.store.settings.get("memory"), policy))

    @property
    def policy(self) -> Policy:
        """The policy that decides now."""
        return self._policy

    @property
    def shadow(self) -> ShadowPolicy | None:
        """The policy that is only compared, if there is one."""
        return self._shadow

    @property
    def rounds(self) -> Rounds:
        """What is known of decisions so far."""
        return self._rounds

    @property
    def unplaced(self) -> frozenset[str]:
        """Jobs that the last decision could have given something and did not."""
        return self._unplaced

    def use_policy(self, policy: Policy, memory: object = None) -> None:
        """Decide by another policy from now on; what the last one kept would mean nothing to it."""
        self._policy, self._rounds.memory = policy, memory

    def use_shadow(self, shadow: ShadowPolicy | None) -> None:
        """Have another policy asked the same from now on, and only compared."""
        self._shadow = shadow

    def complain(self, problem: str) -> None:
        """Say what went wrong; it stands until a decision has been made."""
        self._rounds.problem = problem

    def situation(self, memory: object, trigger: str) -> Situation:
        """What a decision would be made from now, besides the jobs."""
        return Situation(
            now_s=self._clock(),
            nodes=self._ledger.left_to_others(
                self._cluster.usable(lambda: SlotsInUse(self._ledger.live.values()).by_node())
            ),
            known=self._cluster.expected(),
            trigger=trigger,
            memory=memory,
            seed=self._settings.seed,
            decisions=self._rounds.count,
            finished_service_gpu_s=self._ledger.store.jobs.finished_service(),
            min_run_s=self._settings.min_run_s,
        )

    def seen_by(
        self, policy: Policy, memory: object, trigger: str, patient: frozenset[str] = frozenset()
    ) -> AdjustedView:
        """What this policy may see now; jobs of which no view can be made are set aside first."""
        try:
            return self._seen_now(policy, memory, trigger, patient)
        except SERVICE_WIDE:
            raise
        except Exception:
            if not self._containment.set_aside_unreadable(self._cluster.types()):
                raise
            return self._seen_now(policy, memory, trigger, patient)

    def _seen_now(self, policy: Policy, memory: object, trigger: str, patient: frozenset[str]) -> AdjustedView:
        quotas = {quota.tenant: quota for quota in self._ledger.store.accounts.quotas()}
        situation, jobs = self.situation(memory, trigger), self._ledger.live.values()
        return build_view(
            situation, quotas, jobs, policy, patient, self._cluster.leaving(), self._cluster.silent()
        )

    async def decide(self, trigger: str) -> None:
        """Ask the policy in force, do what it says, and compare with the shadow policy."""
        self._rounds.due_s = self._clock() + (self._settings.interval_s or self._policy.needs.period_s or 30.0)
        self._rounds.wake_s = ()
        if not self._ledger.live:
            self._unplaced = frozenset()
            return
        policy, shadow = self._policy, self._shadow
        seen = self.seen_by(policy, self._rounds.memory, trigger)
        answer = await self._runner.ask(policy, seen.view)
        patient = self._left_without(answer)
        if patient:
            seen = self.seen_by(policy, self._rounds.memory, trigger, patient)
            answer = await self._runner.ask(policy, seen.view)
        # The same situation for both: the one before anything is done about it.
        other = None if shadow is None else self.seen_by(shadow.policy, shadow.memory, trigger, patient)
        if self._policy is not policy:
            return  # its memory would mean nothing to the other, which is asked next
        if isinstance(answer, str):
            self._rounds.problem = answer
            log.warning("%s", answer)
        else:
            self._adopt(answer, seen)
        self._driver.ensure_all()
        if shadow is not None and other is not None and isinstance(answer, Decision):
            shadow.compare(await self._runner.ask(shadow.policy, other.view), answer.grants)

    def _left_without(self, answer: Decision | str) -> frozenset[str]:
        """Jobs that would be suspended only because their owners want them larger, or elsewhere."""
        if isinstance(answer, str):
            return frozenset()
        return unmet(self._ledger.live.values(), answer.grants, self._cluster.answering) - answer.ended.keys()

    def _adopt(self, answer: Decision, seen: AdjustedView) -> None:
        rounds = self._rounds
        kept = plain({"policy": self._policy.label(), "memory": answer.plan.memory})
        remembers = kept["memory"] != rounds.memory
        rounds.count += 1
        rounds.last_ms, rounds.problem, rounds.memory = answer.took_ms, "", kept["memory"]
        rounds.wake_s = tuple(answer.plan.wake_s)
        reasons = {**answer.waiting, **seen.withheld}
        self._unplaced = frozenset(answer.waiting)
        for job in self._ledger.live.values():
            job.waiting = self._applier.shown(job, reasons.get(job.id, "")) if job.row.grant is None else ""
            job.over_quota = job.id in seen.over_quota
            if waits(job):
                job.waiting = words(job, list(self._ledger.live.values()), self._cluster.answering)
        with self._ledger.changing() as t:
            changed = self._applier.apply(t, answer, seen.withheld)
            if remembers:
                t.settings.put("memory", kept)
            if changed:
                _record(t, self._policy.label(), answer, changed)
        self._ledger.drop_ended()


def _record(t: Transaction, label: str, answer: Decision, changed: list[str]) -> None:
    """So that it can be made again (``elastane replay``)."""
    view = view_to_json(answer.view)
    number = t.log.add_decision(policy=label, view=view, plan=decision_to_json(answer), took_ms=answer.took_ms)
    body = {
        "number": number,
        "trigger": answer.view.trigger,
        "policy": label,
        "grants": {job: places_of(grant) for job, grant in answer.grants.items()},
        "changed": changed,
    }
    t.log.append_event("decision", None, {**body, "took_ms": round(answer.took_ms, 3)})


def remembered(kept: Mapping[str, object] | None, policy: Policy) -> object:
    """What the policy's last plan asked to keep, if it was this policy's."""
    return kept["memory"] if kept and kept["policy"] == policy.label() else None
