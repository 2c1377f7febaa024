"""Changes what holds for all jobs: nodes, policies, quotas.  What is not stored has not happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elastane.codec import encoded
from elastane.engines.contract import Engine
from elastane.errors import ElastaneError
from elastane.policies.registry import make_live_policy
from elastane.service.cluster_queries import ClusterQueries
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.policy_runner import ShadowPolicy
from elastane.service.control.pool_scaler import PoolScaler
from elastane.service.control.round import DecisionRound
from elastane.service.messages import NodeInfo, PolicyInfo, PoolInfo, QuotaInfo
from elastane.service.protocol import NotFound, Principal
from elastane.service.scaling import Bounds
from elastane.service.store import Store


class ClusterCommands:
    """Changes what is stored and what holds from then on; ``queries`` says how things stand afterwards.

    ``poke`` says what a decision should answer.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        cluster: ClusterState,
        decisions: DecisionRound,
        scaler: PoolScaler,
        poke: Callable[[str], None],
        queries: ClusterQueries,
    ) -> None:
        self._store, self._engine, self._cluster, self._decisions = store, engine, cluster, decisions
        self._scaler, self._poke, self._queries = scaler, poke, queries

    def drain(self, who: Principal, node: str, draining: bool) -> NodeInfo:  # noqa: ARG002
        """Drain a node (no new work, running work moves away), or let it take work again."""
        if node not in self._cluster.known():
            raise NotFound(f"there is no node {node} (there are {', '.join(sorted(self._cluster.known()))})")
        changed = self._cluster.draining | {node} if draining else self._cluster.draining - {node}
        with self._store.transaction() as t:
            t.settings.put("draining", sorted(changed))
            t.log.append_event("node", None, {"node": node, "state": "draining" if draining else "up"})
        self._cluster.drain(frozenset(changed))
        self._poke("node")
        return next(info for info in self._queries.nodes() if info.id == node)

    def set_pool(
        self,
        who: Principal,  # noqa: ARG002 (the audit log has it)
        pool: str,
        least: int | None,
        most: int | None,
        idle_s: float | None,
        budget_per_hour: float | None,
    ) -> PoolInfo:
        """Bound a pool; None leaves a bound as it is, and a budget below 0 lifts that limit."""
        scaler, pools = self._scaler, self._engine.pools()
        if pool not in pools:
            told = f"there are {', '.join(sorted(pools))}" if pools else "its engine has none"
            raise NotFound(f"there is no pool {pool} ({told})")
        old = scaler.bounds(pool, pools[pool])
        given = {"least": least, "most": most, "idle_s": idle_s, "budget_per_hour": budget_per_hour}
        bounds = replace(old, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        if bounds.budget_per_hour is not None and bounds.budget_per_hour < 0.0:
            bounds = replace(bounds, budget_per_hour=None)
        _check(bounds, pools[pool].price_per_hour)
        with self._store.transaction() as t:
            hold = scaler.keep_bounds(t, pool, bounds)
            t.log.append_event("pool", None, {"pool": pool, **encoded(bounds)})
        hold()
        return next(info for info in self._queries.pools() if info.name == pool)

    def set_policy(self, who: Principal, written: str) -> PolicyInfo:  # noqa: ARG002
        """Decide by another policy from now on."""
        policy = make_live_policy(written)
        with self._store.transaction() as t:
            t.settings.put("policy", written)
            t.log.append_event("policy", None, {"policy": policy.label()})
        self._decisions.use_policy(policy)
        self._poke("policy")
        return self._queries.policy()

    def set_shadow(self, who: Principal, written: str | None) -> PolicyInfo:  # noqa: ARG002
        """Ask another policy beside the real one, and only compare (None: stop that)."""
        shadow = ShadowPolicy(make_live_policy(written)) if written is not None else None
        with self._store.transaction() as t:
            t.settings.put("shadow", written)
        self._decisions.use_shadow(shadow)
        return self._queries.policy()

    def set_quota(
        self,
        who: Principal,  # noqa: ARG002
        tenant: str,
        slots: int | None,
        weight: float | None,
        lends: bool | None,
    ) -> QuotaInfo:
        """Change what a tenant may hold; None leaves weight and lending, and lifts the limit on slots."""
        old = self._store.accounts.quota(tenant)
        with self._store.transaction() as t:
            quota = t.accounts.set_quota(
                tenant,
                slots,
                weight=old.weight if weight is None else weight,
                lends=old.lends if lends is None else lends,
            )
        self._poke("quota")
        return self._queries.with_use(quota)


def _check(bounds: Bounds, price_per_hour: float) -> None:
    if bounds.least > bounds.most:
        raise ElastaneError(f"least: {bounds.least} nodes at least are more than {bounds.most} at most")
    if bounds.least > bounds.ceiling(price_per_hour):
        raise ElastaneError(
            f"budget: {bounds.least} nodes at least cost {bounds.least * price_per_hour:g} per hour, "
            f"more than {bounds.budget_per_hour:g}"
        )
