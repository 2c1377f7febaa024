"""Turns tables into bids, and what an auction gave back into a number of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elastane.cluster import Grant
from elastane.models.speed import FloatArray
from elastane.policies.allocation.eviction import Configuration
from elastane.policies.themis.auction import Bid, Bidder, Win
from elastane.policies.themis.tables import Table
from elastane.policies.view import Ability, has


@dataclass(frozen=True)
class Stand:
    """A job in an auction: its table, what it keeps under leases, and how large the cluster is."""

    table: Table
    fixed: Grant | None
    fixed_speedup: float
    cluster_gpus: int

    @property
    def id(self) -> str:
        """The id of its job, which is that of its bids."""
        return self.table.job.id

    @property
    def rho(self) -> float:
        """ρ now, with all it holds; for a job that waits, ρ without anything in this auction."""
        table = self.table
        return table.app.rho(table.present, self.cluster_gpus) if table.present > 0.0 else self.rho_without

    @property
    def rho_without(self) -> float:
        """ρ with nothing more than what it keeps under leases."""
        app = self.table.app
        if self.fixed is not None and self.fixed_speedup > 0.0:
            return app.rho(self.fixed_speedup, self.cluster_gpus)
        return app.rho_without(self.table.slowest, self.cluster_gpus)

    def offers(self, free: Mapping[str, int]) -> list[tuple[float, int, Configuration]]:
        """Returns (ρ, further GPUs, configuration) of all bundles that are free and better than nothing, best first."""
        table, request = self.table, self.table.job.request
        under = request.gpus_held(self.fixed)
        more = np.array([request.gpus_of(each.gpus) - under for each in table.choices], dtype=np.int64)
        room = np.array([free.get(each.gpu_type, 0) for each in table.choices], dtype=np.int64)
        possible = (more > 0) & (more <= room) & (table.speedups > 0.0)
        if self.fixed is not None:
            possible &= np.array([each.gpu_type == table.home for each in table.choices], dtype=bool)
        places = np.flatnonzero(possible)
        rhos = table.app.rhos(table.speedups[places], self.cluster_gpus, self._restarts_s()[places])
        better = [
            (float(rho), int(more[place]), table.choices[place])
            for rho, place in zip(rhos, places.tolist(), strict=True)
            if rho < self.rho_without * (1.0 - 1e-9)
        ]
        return sorted(better, key=lambda offer: (offer[0], offer[1], offer[2].gpu_type))

    def _restarts_s(self) -> FloatArray:
        """Returns what each choice costs before it does anything: a restart, unless the job goes on as it is."""
        table, job = self.table, self.table.job
        same = [each.gpu_type == table.home and each.gpus == job.workers for each in table.choices]
        return np.where(np.array(same, dtype=bool), 0.0, job.restart_s)

    def bidder(self, free: Mapping[str, int]) -> Bidder:
        """Returns the bid table for the free bundle."""
        bids = tuple(Bid(each.gpu_type, gpus, 1.0 / rho) for rho, gpus, each in self.offers(free))
        return Bidder(self.id, 1.0 / self.rho_without, bids)

    def received(self, win: Win) -> int:
        """Returns the workers that a win leaves after its payment, all in all.

        GPUs are rounded down to what the job can use, but not below its least size: a gang has no part to pay with.
        """
        table, request = self.table, self.table.job.request
        under = self.fixed.workers if self.fixed else 0
        sizes = sorted(
            {each.gpus for each in table.choices if each.gpu_type == win.bid.gpu_type and each.gpus > under}
        )
        affordable = under + int(win.gpus / max(request.worker.gpus, 1e-9) + 1e-6)
        if has(table.job.abilities, Ability.RESIZE):
            return min(max(affordable, sizes[0]), sizes[-1])
        return max((size for size in sizes if size <= affordable), default=sizes[0])
