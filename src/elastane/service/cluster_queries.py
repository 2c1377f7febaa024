"""Answers questions about the cluster and the service itself: nodes, policy, quotas, the event log, figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from elastane import __version__
from elastane.engines.contract import Engine
from elastane.service.control.active_job import slots_of
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.pool_scaler import PoolScaler
from elastane.service.control.round import DecisionRound
from elastane.service.control.settings import ControlSettings
from elastane.service.messages import (
    EventRecord,
    NodeInfo,
    NodeState,
    PolicyInfo,
    PoolInfo,
    QuotaInfo,
    ServerInfo,
)
from elastane.service.presenters import node_infos, pool_info
from elastane.service.same_machine import this_machine
from elastane.service.store import Store


class ClusterQueries:
    """Reads nodes, decisions and the store, and changes nothing.

    ``changed`` is notified after every round; ``warnings`` is what the owner of this machine should know by now.
    """

    def __init__(
        self,
        settings: ControlSettings,
        store: Store,
        engine: Engine,
        ledger: Ledger,
        cluster: ClusterState,
        decisions: DecisionRound,
        scaler: PoolScaler,
        changed: asyncio.Condition,
        clock: Clock,
        warnings: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._settings, self._store, self._engine, self._ledger = settings, store, engine, ledger
        self._cluster, self._decisions, self._scaler, self._changed = cluster, decisions, scaler, changed
        self._started_s = clock()
        self._warnings = warnings

    def info(self) -> ServerInfo:
        """Version, policy and size of this server, and what its owner should know."""
        nodes = self._engine.nodes()
        counts = {state.value: count for state, count in self._store.jobs.count_by_state().items()}
        return ServerInfo(
            version=__version__,
            home=str(self._settings.home),
            started_s=self._started_s,
            policy=self._decisions.policy.label(),
            slots=sum(node.gpus for node in nodes.values()),
            nodes=len(nodes),
            jobs=counts,
            warnings=[*self._warnings(), *filter(None, [self._decisions.rounds.problem])],
            machine=this_machine(),
            elsewhere=int(self._engine.facts().get("elsewhere", 0)),
        )

    def events(self, after: int, limit: int = 1000) -> Sequence[EventRecord]:
        """The event log after an entry."""
        return self._store.log.events(after, limit)

    async def wait_for_events(self, after: int, timeout_s: float) -> bool:
        """Wait until there is an entry after this one; False if none came in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while self._store.log.last_event_seq() <= after:
            left = deadline - loop.time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left), self._changed:
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def gauges(self) -> Mapping[str, float | Mapping[str, float]]:
        """Metrics for Prometheus: by name, or by name and one label."""
        nodes = self._engine.nodes()
        held = sum(slots_of(j.spec, j.row.grant.workers) for j in self._ledger.live.values() if j.row.grant)
        return {
            "elastane_slots": float(sum(node.gpus for node in nodes.values())),
            "elastane_slots_used": float(held),
            "elastane_nodes": float(len(nodes)),
            "elastane_nodes_by_state{state}": self._by_state(),
            "elastane_pool_nodes{pool}": {pool.name: float(pool.now) for pool in self.pools()},
            "elastane_pool_wanted{pool}": {pool.name: float(pool.wanted) for pool in self.pools()},
            "elastane_jobs{state}": {
                state.value: float(count) for state, count in self._store.jobs.count_by_state().items()
            },
            "elastane_decisions_total": float(self._decisions.rounds.count),
            "elastane_decision_ms": self._decisions.rounds.last_ms or 0.0,
            "elastane_job_goodput{job}": {
                j.id: float(t.goodput)
                for j in self._ledger.live.values()
                if (t := j.learned.training) is not None and t.goodput is not None and j.row.grant
            },
            "elastane_job_workers{job}": {
                j.id: float(j.row.grant.workers) for j in self._ledger.live.values() if j.row.grant
            },
        }

    def _by_state(self) -> dict[str, float]:
        cluster = self._cluster
        found = dict.fromkeys(get_args(NodeState), 0.0)
        for name in cluster.known():
            found[cluster.standing(name).state] += 1.0
        return found

    def nodes(self) -> list[NodeInfo]:
        """All nodes, with their slots and their jobs."""
        return node_infos(self._cluster, list(self._ledger.live.values()))

    def pools(self) -> list[PoolInfo]:
        """All pools, with their bounds and sizes."""
        scaler = self._scaler
        return [
            pool_info(name, pool, scaler.bounds(name, pool), scaler.wanted(name, pool))
            for name, pool in sorted(self._engine.pools().items())
        ]

    def policy(self) -> PolicyInfo:
        """The policy in charge, its figures, and its shadow."""
        policy, rounds, shadow = self._decisions.policy, self._decisions.rounds, self._decisions.shadow
        return PolicyInfo(
            policy=policy.label(),
            title=policy.title,
            period_s=self._settings.interval_s or policy.needs.period_s,
            decisions=rounds.count,
            last_ms=rounds.last_ms,
            problem=rounds.problem,
            shadow=shadow.policy.label() if shadow is not None else None,
            shadow_differs=shadow.differs if shadow is not None else 0,
            shadow_decisions=shadow.decisions if shadow is not None else 0,
            shadow_last=shadow.last if shadow is not None else "",
        )

    def quotas(self) -> list[QuotaInfo]:
        """The quotas of all tenants, with what they hold."""
        return [self.with_use(quota) for quota in self._store.accounts.quotas()]

    def with_use(self, quota: QuotaInfo) -> QuotaInfo:
        """The quota with the slots that its tenant holds now."""
        return quota.model_copy(update={"used": self._used(quota.tenant)})

    def _used(self, tenant: str) -> int:
        live = [j for j in self._ledger.live.values() if j.row.tenant == tenant and j.row.grant is not None]
        return sum(slots_of(j.spec, j.row.grant.workers) for j in live if j.row.grant)
