"""Makes the first claim of each job: the tasks it starts with, how far it may grow, and its speed up to there."""

from __future__ import annotations

import numpy as np

from elastane.models.speed import ServerSpeedModel
from elastane.policies.optimus.greedy import Claim
from elastane.policies.optimus.resource_pool import Amounts, ResourcePool, Task
from elastane.policies.optimus.speed_table import ServerGrid, SpeedSurface, WorkerLine
from elastane.policies.reasons import said
from elastane.policies.view import Ability, JobView, Request, View, has


class InitialAllocation:
    """Makes claims for the jobs of one view on one stock."""

    def __init__(self, view: View, stock: ResourcePool) -> None:
        self._view, self._stock = view, stock
        self._reach: dict[tuple[float, tuple[str, ...], int | None], int] = {}

    def starts(self, explain: dict[str, str]) -> list[Claim]:
        """Returns claims of the least tasks of every job while they fit, first those that cannot be suspended.

        Whoever gets nothing is told why in ``explain``.
        """
        view, stock = self._view, self._stock
        claims: list[Claim] = []
        for job in sorted(view.jobs.values(), key=lambda job: (not view.must_keep(job), job.submit_s, job.id)):
            claim = self.first(job)
            need = self.taken(claim, job)
            reach = self.reachable(job.request)
            if claim.workers > reach and not self.stays_as_it_is(job):
                explain[job.id] = f"needs {claim.workers} workers to start, the nodes it may use hold {reach}"
            elif stock.fits(need):
                stock.take(need)
                claims.append(claim)
            else:
                least, left = stock.describe(need), stock.describe_free(need)
                explain[job.id] = said("needs ", least, " to start, ", left, " are left after those before it")
        return claims

    def first(self, job: JobView) -> Claim:
        """Returns the first claim: the least workers and one server, or all that a job of fixed size asks for."""
        request = job.request
        uses_servers = request.server is not None and request.max_servers > 0
        server = self._stock.task(request.server) if request.server is not None and uses_servers else None
        if job.grant is not None and self.stays_as_it_is(job):
            workers, servers = job.grant.workers, job.grant.servers
        elif has(job.abilities, Ability.RESIZE):
            workers, servers = max(request.min_workers, 1), 1
        else:
            workers, servers = request.workers, min(request.workers, request.max_servers)
        return Claim(job.id, servers if server else 0, workers, self._stock.task(request.worker), server)

    def taken(self, claim: Claim, job: JobView) -> Amounts:
        """Returns what a first claim takes of the stock, of which draining nodes are not a part."""
        if job.grant is None or not self._view.must_keep(job):
            return claim.need
        parts = [part for part in job.grant.slices if not self._view.nodes[part.node].draining]
        return claim.cost((sum(part.servers for part in parts), sum(part.workers for part in parts)))

    def surface(self, job: JobView, claim: Claim) -> SpeedSurface | None:
        """Returns the job's speed as far as it may grow, and sets that limit in the claim; None if it may not grow.

        It may not grow either if its speed is unknown.
        """
        speed = job.speed
        if speed is None or self.stays_as_it_is(job) or not has(job.abilities, Ability.RESIZE):
            return None
        explored = max(2 * speed.max_profiled, 1)  # no leap far beyond what was ever seen
        most = min(job.request.max_workers, speed.max_useful, explored, self.reachable(job.request))
        more = self._stock.count(claim.worker.need, max(most - claim.workers, 0))
        claim.most_workers = claim.workers + more
        if claim.server is None:
            return WorkerLine(speed, claim.most_workers, self._per_node(claim.worker))
        if not isinstance(speed, ServerSpeedModel):
            return None
        claim.most_servers = job.request.max_servers
        most_of_both = claim.most_servers, claim.most_workers
        return ServerGrid(speed, most_of_both, (claim.server.need, claim.worker.need), self._stock.widest)

    def least_rate(self, job: JobView) -> float:
        """Returns the speed, in work per second, on the least tasks a job may have; 0 if unknown."""
        speed, request = job.speed, job.request
        workers = np.array([max(request.min_workers, 1)])
        if isinstance(speed, ServerSpeedModel) and request.server is not None:
            one = np.ones_like(workers)
            return float(speed.server_rates(one, one, workers)[0])
        nodes = -(-workers // self._per_node(self._stock.task(request.worker)))
        return float(speed.rates(nodes, workers)[0]) if speed is not None else 0.0

    def stays_as_it_is(self, job: JobView) -> bool:
        """Whether the job can run with what it holds or not at all: growing may mean moving."""
        if self._view.must_keep(job):
            return True
        if job.grant is None or has(job.abilities, Ability.MIGRATE):
            return False
        nodes = self._view.nodes
        return all(node in nodes and not nodes[node].draining for node in job.grant.nodes)

    def reachable(self, request: Request) -> int:
        """Returns the most workers the job could ever have; computed once per kind of request."""
        if not request.worker.gpus:
            return max(request.max_workers, request.workers)
        key = request.worker.gpus, request.types, request.max_nodes
        if key not in self._reach:
            self._reach[key] = self._view.reach(request)
        return self._reach[key]

    def _per_node(self, worker: Task) -> int:
        """Workers on the widest node, by GPUs."""
        gpus, wanted = self._stock.widest[0], worker.need[0]
        return max(int(gpus / wanted) if wanted else int(gpus), 1)
