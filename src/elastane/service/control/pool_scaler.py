"""Brings the sizes of pools about: states what is used and what waits, and tells the engine and the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from elastane.codec import decoded, encoded
from elastane.engines.contract import Engine, Pool
from elastane.service.control.active_job import LiveJob
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.slots_in_use import SlotsInUse
from elastane.service.control.wakeup import Wakeup
from elastane.service.scaling import Bounds, Need, PoolNode, PoolState, Size, sizes
from elastane.service.store import Transaction

_SETTING = "pools"


class PoolScaler:
    """Sizes of pools, as their owners have bounded them.  ``unplaced`` are jobs that the policy had no room for."""

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        cluster: ClusterState,
        wakeup: Wakeup,
        unplaced: Callable[[], frozenset[str]],
        clock: Clock,
    ) -> None:
        self._ledger, self._engine, self._cluster = ledger, engine, cluster
        self._wakeup, self._unplaced, self._clock = wakeup, unplaced, clock
        kept: Mapping[str, Mapping[str, object]] = ledger.store.settings.get(_SETTING) or {}
        self._bounds = {name: decoded(Bounds, each) for name, each in kept.items()}
        self._wanted: dict[str, int] = {}
        self._idle_since_s: dict[str, float] = {}

    def bounds(self, name: str, pool: Pool) -> Bounds:
        """What its owner has set, else what its provider says."""
        return self._bounds.get(name) or Bounds(pool.least, pool.most)

    def wanted(self, name: str, pool: Pool) -> int:
        """How many nodes were asked for last."""
        return self._wanted.get(name, pool.now)

    def keep_bounds(self, t: Transaction, name: str, bounds: Bounds) -> Callable[[], None]:
        """Store other bounds of a pool; what is returned makes them hold, once they are stored."""
        changed = {**self._bounds, name: bounds}
        t.settings.put(_SETTING, {name: encoded(each) for name, each in changed.items()})

        def hold() -> None:
            self._bounds = changed
            self._wakeup.poke("node")

        return hold

    def scale(self) -> None:
        """Have every pool as large as it should be now; harmless to repeat."""
        pools = self._engine.pools()
        if not pools:
            return
        used = SlotsInUse(self._ledger.live.values()).by_node()
        states = self._states(pools, used)
        found = sizes(states, self._needs(), self._others(states, used))
        changed = {name: size for name, size in found.items() if self._wanted.get(name) != size.count}
        if changed:
            with self._ledger.store.transaction() as t:
                for name, size in changed.items():
                    before = self.wanted(name, pools[name])
                    t.log.append_event("pool", None, {"pool": name, "wanted": size.count, "before": before})
        for name, size in found.items():
            self._bring_about(name, size, pools[name])
        retiring = frozenset().union(*(size.retiring for size in found.values()))
        if retiring != self._cluster.retiring:
            self._cluster.retire(retiring)
            self._wakeup.poke("node")

    def _bring_about(self, name: str, size: Size, pool: Pool) -> None:
        self._wanted[name] = size.count
        if size.count != pool.now or size.retiring:
            self._engine.want(name, size.count, size.keep)

    def _states(self, pools: Mapping[str, Pool], used: Mapping[str, int]) -> dict[str, PoolState]:
        now_s = self._clock()
        there = self._cluster.answering
        members: dict[str, list[PoolNode]] = {name: [] for name in pools}
        idle: dict[str, float] = {}
        for name, node in there.items():
            pool = self._cluster.pool_of(name)
            if pool not in members:
                continue
            held = used.get(name, 0)
            if not held:
                idle[name] = min(now_s, self._idle_since_s.get(name, now_s))
            fit = self._cluster.standing_of(name).state in ("up", "draining")
            free = node.gpus - held if fit and name not in self._cluster.draining else 0
            idle_s = now_s - idle[name] if not held else None
            members[pool].append(PoolNode(name, max(0, free), idle_s, name in self._cluster.retiring))
        self._idle_since_s = idle
        return {
            name: PoolState(
                pool.node, pool.price_per_hour, self.bounds(name, pool), members[name], self.wanted(name, pool)
            )
            for name, pool in pools.items()
        }

    def _needs(self) -> Sequence[Need]:
        """What those need that wait for room, in the order of the queue."""
        waiting = [job for name in self._unplaced() if (job := self._ledger.live.get(name)) is not None]
        waiting = [job for job in waiting if job.row.grant is None and not job.row.held]
        return [_need(job) for job in sorted(waiting, key=_turn)]

    def _others(self, pools: Mapping[str, PoolState], used: Mapping[str, int]) -> dict[str, list[int]]:
        """Free slots by accelerator type of nodes that belong to no pool."""
        ours = {node.name for pool in pools.values() for node in pool.nodes}
        free = dict[str, list[int]]()
        for name, node in self._cluster.answering.items():
            if name not in ours and self._cluster.standing_of(name).state == "up":
                free.setdefault(node.gpu_type, []).append(max(0, node.gpus - used.get(name, 0)))
        return free


def _need(job: LiveJob) -> Need:
    return Need(job.request(1).min_workers, job.worker.gpus, tuple(job.spec.accelerators))


def _turn(job: LiveJob) -> tuple[int, float, int]:
    return -job.spec.priority, job.row.submitted_s, job.row.number
