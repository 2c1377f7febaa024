"""Lays out the parameter servers and workers of one job over machines: Optimus's placement theorem.

Theorem (Peng et al., Optimus, EuroSys 2018, section 4.2): for given counts of servers and workers, synchronous
training on equal machines is fastest on the fewest machines that hold the job, with the same number of servers
and the same number of workers on each.  Order of jobs and of machines is the policy's affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastane.errors import ElastaneError
from elastane.resources import Resources


@dataclass(frozen=True, slots=True)
class Layout:
    """Parameter servers and workers of one job on each machine, in the caller's order of machines."""

    servers: tuple[int, ...]
    workers: tuple[int, ...]

    @property
    def machines(self) -> int:
        """Machines that hold anything."""
        return sum(1 for p, w in zip(self.servers, self.workers, strict=True) if p or w)

    def transfer_s(self, model_gb: float, server_gb_per_s: float = 1.0, worker_gb_per_s: float = 1.0) -> float:
        """Seconds to send the model's gradients once across machine borders, by the slowest process.

            T = max_k max( (S/p)·(w − w_k)/B if p_k > 0,  (S/p)·(p − p_k)/b if w_k > 0 )

        S model size, p and w servers and workers in all, p_k and w_k those on machine k, B and b bandwidth of
        one server and one worker.  What stays on a machine is free.  A machine without servers has no server
        that could be slow (and likewise for workers); the paper leaves these conditions unsaid.
        """
        p, w = sum(self.servers), sum(self.workers)
        if not p or not w:
            raise ElastaneError("a layout needs at least one parameter server and one worker")
        pairs = list(zip(self.servers, self.workers, strict=True))
        from_servers = max(w - w_k for p_k, w_k in pairs if p_k) / server_gb_per_s
        to_workers = max(p - p_k for p_k, w_k in pairs if w_k) / worker_gb_per_s
        return model_gb / p * max(from_servers, to_workers)


def even_layouts(servers: int, workers: int, machines: int) -> tuple[Layout, ...]:
    """The even spreads over ``machines``: counts of each kind differ by one at most.

    Where neither count divides, the odd workers may stand on the machines with the odd servers (less traffic)
    or on the others (less room per machine); both are returned, in this order.
    """
    if servers < 1 or workers < 1 or machines < 1:
        raise ElastaneError(
            f"cannot spread {servers} servers and {workers} workers over {machines} machines: "
            "all three must be 1 or more"
        )
    spread = _spread(servers, machines, 0)
    shifts = (0, servers % machines) if servers % machines and workers % machines else (0,)
    return tuple(Layout(spread, _spread(workers, machines, shift)) for shift in shifts)


def fewest_machines(
    servers: int, workers: int, free: Sequence[Resources], server: Resources, worker: Resources
) -> Layout | None:
    """The theorem's layout on the first k of ``free``, for the smallest k that holds it; None when none does.

    Sort ``free`` with the roomiest machine first.  ``server`` and ``worker`` are what one of each takes.
    """
    for machines in range(1, min(len(free), servers + workers) + 1):
        options = [
            layout for layout in even_layouts(servers, workers, machines) if _fits(layout, free, server, worker)
        ]
        if options:
            return min(options, key=lambda layout: layout.transfer_s(1.0))
    return None


def _spread(count: int, machines: int, first_odd: int) -> tuple[int, ...]:
    each, odd = divmod(count, machines)
    return tuple(each + ((i - first_odd) % machines < odd) for i in range(machines))


def _fits(layout: Layout, free: Sequence[Resources], server: Resources, worker: Resources) -> bool:
    parts = zip(layout.servers, layout.workers, free, strict=False)
    return all((server * p + worker * w).fits(room) for p, w, room in parts)
