"""Themis (NSDI'20): whenever leases end or GPUs are idle, the free ones are auctioned to the worst-off apps.

Each app bids ρ, its finish-time fairness, for bundles; a proportionally fair partial allocation with hidden payments
chooses, so that nobody gains by lying; what is left goes to the others by lot.  ``finish_time`` has the symbols of ρ,
``auction`` those of the mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from elastane.cluster import Grant
from elastane.policies.allocation.eviction import Configuration
from elastane.policies.contract import Needs, Policy
from elastane.policies.lowering.room import Room
from elastane.policies.options import OptionError
from elastane.policies.plan import Exact, Plan
from elastane.policies.reasons import Gpus, said
from elastane.policies.themis.auction import few_enough, hold_exact
from elastane.policies.themis.bids import Stand
from elastane.policies.themis.finish_time import visible
from elastane.policies.themis.greedy import hold_greedy
from elastane.policies.themis.history import history_of, nothing_new
from elastane.policies.themis.layout import lay
from elastane.policies.themis.leases import Lot, as_memory, held_under, leases_of, next_end_s, renewed, running
from elastane.policies.themis.tables import Table, is_stuck, tables_of
from elastane.policies.view import Info, View


@dataclass(frozen=True)
class Themis(Policy):
    """Finish-time fairness by auctions of leased GPUs.

    Attributes:
        f: Fairness knob: the free GPUs are offered to the worst-off part 1 − f of the jobs.
        lease_s: How long a GPU that was won stays with its job, in seconds.
    """

    f: float = 0.8
    lease_s: float = 1200.0

    name: ClassVar[str] = "themis"
    title: ClassVar[str] = "Themis"
    paper: ClassVar[str] = "Mahajan et al., NSDI'20"
    needs: ClassVar[Needs] = Needs(info=Info.SPEED | Info.REMAINING)
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.f < 1.0 or not 1.0 <= self.lease_s <= 1e6:
            raise OptionError("themis: f is from 0 and below 1, lease_s from 1 to 1e6")

    def decide(self, view: View) -> Plan:
        """Auctions the GPUs that no lease holds; explains to those without why they have none."""
        jobs = sorted(view.jobs.values(), key=lambda job: (job.submit_s, job.id))
        leases, history = leases_of(view.memory), history_of(view)
        kept = {job.id: running(job, leases, view) for job in jobs if not view.must_keep(job)}
        room = Room.of(view)
        grants: dict[str, Grant] = {}
        for job in jobs:
            grant = job.grant if view.must_keep(job) else held_under(job, kept[job.id])
            if grant is not None:
                grants[job.id] = grant
                room.take(grant, job.request)
        explain: dict[str, str] = {}
        free = _free(room)
        ended = any(job.grant and grants.get(job.id, Grant(())).workers < job.workers for job in jobs)
        if sum(free.values()) and (ended or not nothing_new(view)):
            mine = [job for job in jobs if job.id in kept]
            tables = tables_of(mine, view, history)
            stands = [self._stand(tables[job.id], kept[job.id], view) for job in mine]
            _Sale(view, room, grants, Random(view.seed)).hold(stands, self.f)
            explain = {job: _NO_SIZE for job, table in tables.items() if not table.slowest}
        until_s = view.now_s + self.lease_s
        after = {job: renewed(grants[job], kept[job], until_s) for job in sorted(kept) if job in grants}
        explain.update(
            (job.id, _waits(self.f)) for job in jobs if job.id not in grants and job.id not in explain
        )
        end_s = next_end_s(after)
        return Plan(
            Exact({job.id: _stamped(grants[job.id], after.get(job.id)) for job in jobs if job.id in grants}),
            explain={job: why for job, why in explain.items() if job not in grants},
            wake_s=() if end_s is None else (end_s,),
            memory={**history.as_memory(), "leases": as_memory(after)},
        )

    def _stand(self, table: Table, lots: tuple[Lot, ...], view: View) -> Stand:
        fixed = held_under(table.job, lots)
        speedup = 0.0
        if fixed is not None and table.home is not None:
            whole = fixed.workers == table.job.workers
            speedup = (
                table.present
                if whole
                else table.speedup(Configuration(table.home, fixed.workers, len(fixed.slices)))
            )
        return Stand(table, fixed, speedup, view.total_gpus)


@dataclass(frozen=True)
class _Sale:
    """One auction: the room there is, and the grants that it fills in."""

    view: View
    room: Room
    grants: dict[str, Grant]
    random: Random

    def hold(self, stands: Sequence[Stand], f: float) -> None:
        """Offers the free GPUs to the worst-off, then what is left to the others by lot, then to anybody."""
        free = _free(self.room)
        able = [stand for stand in stands if stand.offers(free)]
        if not able:
            return
        places = visible([stand.rho for stand in able], f)
        seen = [able[place] for place in places]
        self._auction(seen, free)
        outside = [able[place] for place in sorted({*range(len(able))}.difference(places))]
        self.random.shuffle(outside)
        for stand in (*outside, *seen):
            if not any(self.room.free_gpus.values()):
                break
            self._leave(stand)

    def _auction(self, seen: Sequence[Stand], free: Mapping[str, int]) -> None:
        """Lays out what the winners keep: who stays as it is first, then the largest."""
        bidders = [stand.bidder(free) for stand in seen]
        wins = hold_exact(bidders, free) if few_enough(bidders, free) else hold_greedy(bidders, free)
        given = [
            (stand, wins[stand.id].bid.gpu_type, stand.received(wins[stand.id]))
            for stand in seen
            if stand.id in wins
        ]
        given.sort(key=lambda each: (each[2] != each[0].table.job.workers, -each[2]))
        for stand, kind, workers in given:
            self._lay(stand, kind, workers)

    def _leave(self, stand: Stand) -> None:
        """Gives one job the best of what is left, if that is better than what it has got."""
        got = self.grants.get(stand.id)
        if got is not None and stand.fixed is not got:
            stand = replace(stand, fixed=got, fixed_speedup=self._speedup(stand, got))
            if stand.table.home != self._kind(got):
                return
        for _, _, choice in stand.offers(_free(self.room)):
            if self._lay(stand, choice.gpu_type, choice.gpus):
                return

    def _lay(self, stand: Stand, kind: str, workers: int) -> bool:
        job = stand.table.job
        grant = lay(job, workers, kind, stand.fixed, self.room, is_stuck(job, self.view))
        if grant is not None:
            self.grants[stand.id] = grant
        return grant is not None

    def _speedup(self, stand: Stand, grant: Grant) -> float:
        return stand.table.speedup(Configuration(self._kind(grant), grant.workers, len(grant.slices)))

    def _kind(self, grant: Grant) -> str:
        return self.view.nodes[grant.slices[0].node].gpu_type


_NO_SIZE = said("no accelerator type it may use has as many ", Gpus(), " as it needs")


def _waits(f: float) -> str:
    share = f"the {1.0 - f:.0%} of the jobs that are furthest behind, then drawn by lot"
    return said("free ", Gpus(), f" were offered to {share}; others are leased")


def _free(room: Room) -> dict[str, int]:
    """Returns the GPUs of each type that an auction can offer."""
    free: dict[str, int] = {}
    for node_id, node in room.nodes.items():
        if not node.draining and room.free_gpus[node_id] > 0:
            free[node.gpu_type] = free.get(node.gpu_type, 0) + room.free_gpus[node_id]
    return free


def _stamped(grant: Grant, lots: tuple[Lot, ...] | None) -> Grant:
    """Returns the grant with the time at which its first lease ends; a job that must keep its grant has none."""
    return replace(grant, lease_until_s=min(lot.until_s for lot in lots)) if lots else grant


@dataclass(frozen=True)
class ThemisOracle(Themis):
    """Themis with true speeds and true remaining work, as its paper assumes them."""

    name: ClassVar[str] = "themis-oracle"
    title: ClassVar[str] = "Themis, all-knowing"
    needs: ClassVar[Needs] = replace(Themis.needs, oracle=True)
