"""The cluster and how it is divided: nodes, policy, quotas."""

from __future__ import annotations

from fastapi import APIRouter

from elastane.service.api.context import Asked
from elastane.service.api.redaction import node_for
from elastane.service.api.requests import ChoosePolicy, ChooseShadow, SetPool, SetQuota
from elastane.service.api.route import GuardedRoute
from elastane.service.api.url_fields import NodeId, PoolName, TenantName
from elastane.service.messages import NodeInfo, PolicyInfo, PoolInfo, QuotaInfo

routes = APIRouter(route_class=GuardedRoute, tags=["cluster"])


@routes.get("/nodes")
async def list_nodes(call: Asked) -> list[NodeInfo]:
    """All nodes, with those of their jobs that the asker may see."""
    return [node_for(call, node) for node in call.service.nodes()]


@routes.post("/nodes/{node}/drain")
async def drain_node(call: Asked, node: NodeId) -> NodeInfo:
    """Drain a node: no new work, and running work moves away."""
    return call.service.drain(call.who, node, draining=True)


@routes.post("/nodes/{node}/undrain")
async def undrain_node(call: Asked, node: NodeId) -> NodeInfo:
    """Let a drained node take work again."""
    return call.service.drain(call.who, node, draining=False)


@routes.get("/pools")
async def list_pools(call: Asked) -> list[PoolInfo]:
    """Pools of nodes, with their bounds and sizes."""
    return call.service.pools()


@routes.put("/pools/{pool}")
async def set_pool(call: Asked, pool: PoolName, wish: SetPool) -> PoolInfo:
    """Bound a pool: fewest and most nodes, how long an idle one stays, and what all may cost."""
    return call.service.set_pool(call.who, pool, wish.least, wish.most, wish.idle_s, wish.budget_per_hour)


@routes.get("/policy")
async def show_policy(call: Asked) -> PolicyInfo:
    """How decisions are made."""
    return call.service.policy()


@routes.put("/policy")
async def set_policy(call: Asked, wish: ChoosePolicy) -> PolicyInfo:
    """Decide by another policy from now on."""
    call.target = wish.policy
    return call.service.set_policy(call.who, wish.policy)


@routes.put("/policy/shadow")
async def set_shadow(call: Asked, wish: ChooseShadow) -> PolicyInfo:
    """Ask another policy beside the real one, and only compare."""
    call.target = wish.policy or "none"
    return call.service.set_shadow(call.who, wish.policy)


@routes.get("/quotas")
async def list_quotas(call: Asked) -> list[QuotaInfo]:
    """What tenants may hold: the asker's own, or (an admin) of all."""
    return [quota for quota in call.service.quotas() if call.is_admin or quota.tenant == call.who.tenant]


@routes.put("/quotas/{tenant}")
async def set_quota(call: Asked, tenant: TenantName, wish: SetQuota) -> QuotaInfo:
    """Say what a tenant may hold."""
    return call.service.set_quota(call.who, tenant, wish.slots, wish.weight, wish.lends)
