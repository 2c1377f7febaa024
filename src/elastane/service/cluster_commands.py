"""Changes what holds for all jobs: nodes, policies, quotas.  What is not stored has not happened."""

from __future__ import annotations

from elastane.policies.registry import make_live_policy
from elastane.service.cluster_queries import ClusterQueries
from elastane.service.control.plane import ControlPlane
from elastane.service.control.policy_runner import ShadowPolicy
from elastane.service.messages import NodeInfo, PolicyInfo, QuotaInfo
from elastane.service.protocol import NotFound, Principal


class ClusterCommands:
    """Changes a control plane's settings; ``queries`` says how things stand afterwards."""

    def __init__(self, plane: ControlPlane, queries: ClusterQueries) -> None:
        self._plane, self._queries = plane, queries

    def drain(self, who: Principal, node: str, draining: bool) -> NodeInfo:  # noqa: ARG002
        """Drain a node (no new work, running work moves away), or let it take work again."""
        if node not in self._plane.known_nodes():
            raise NotFound(
                f"there is no node {node} (there are {', '.join(sorted(self._plane.known_nodes()))})"
            )
        changed = self._plane.draining | {node} if draining else self._plane.draining - {node}
        with self._plane.store.transaction() as t:
            t.set_setting("draining", sorted(changed))
            t.append_event("node", None, {"node": node, "state": "draining" if draining else "up"})
        self._plane.cluster.drain(frozenset(changed))
        self._plane.poke("node")
        return next(info for info in self._queries.nodes() if info.id == node)

    def set_policy(self, who: Principal, written: str) -> PolicyInfo:  # noqa: ARG002
        """Decide by another policy from now on."""
        policy = make_live_policy(written)
        with self._plane.store.transaction() as t:
            t.set_setting("policy", written)
            t.append_event("policy", None, {"policy": policy.label()})
        self._plane.decisions.use_policy(policy)
        self._plane.poke("policy")
        return self._queries.policy()

    def set_shadow(self, who: Principal, written: str | None) -> PolicyInfo:  # noqa: ARG002
        """Ask another policy beside the real one, and only compare (None: stop that)."""
        shadow = ShadowPolicy(make_live_policy(written)) if written is not None else None
        with self._plane.store.transaction() as t:
            t.set_setting("shadow", written)
        self._plane.decisions.use_shadow(shadow)
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
        old = self._plane.store.quota(tenant)
        with self._plane.store.transaction() as t:
            quota = t.set_quota(
                tenant,
                slots,
                weight=old.weight if weight is None else weight,
                lends=old.lends if lends is None else lends,
            )
        self._plane.poke("quota")
        return self._queries.with_use(quota)
