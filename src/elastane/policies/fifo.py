"""First come, first served, with gangs: the baseline that every other policy is measured against.

Nothing is ever preempted.  The modes differ in what happens behind a job whose gang is not complete yet:
``strict`` and ``hoard`` let no job overtake it (``hoard`` also says how many GPUs stand idle for its sake),
``fit`` starts whatever fits, which may starve wide jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from elastane.policies.contract import Needs, Policy
from elastane.policies.options import OptionError
from elastane.policies.plan import Fill, Order, Plan, Spread
from elastane.policies.reasons import Gpus, Job, are, said
from elastane.policies.view import JobView, View


def queue_key(job: JobView) -> tuple[float, float, str]:
    """Sorts by higher priority, then earlier submission, then id."""
    return (-job.priority, job.submit_s, job.id)


def gpus_of(job: JobView) -> int:
    """Returns the GPUs that the whole gang needs."""
    return job.request.gpus_of(job.request.workers)


def running_and_queue(view: View) -> tuple[list[JobView], list[JobView]]:
    """Splits the jobs: those that may keep what they hold, by start, and all others in the order of the queue.

    A job on a node that is being drained has to move, so it queues again, at its old place.
    """
    usable = {i for i, node in view.nodes.items() if not node.draining}
    running: list[JobView] = []
    queue: list[JobView] = []
    for job in sorted(view.jobs.values(), key=queue_key):
        keeps = view.must_keep(job) or (job.grant is not None and usable.issuperset(job.grant.nodes))
        (running if keeps else queue).append(job)
    return sorted(running, key=lambda job: job.ledger.last_change_s or 0.0), queue


def free_gpus(view: View, running: Sequence[JobView]) -> int:
    """Returns the GPUs of the cluster that these running jobs leave free."""
    return view.total_gpus - sum(job.request.gpus_of(job.workers) for job in running)


@dataclass(frozen=True)
class Fifo(Policy):
    """The queue by priority, then arrival.

    Attributes:
        mode: ``strict`` (no job overtakes), ``hoard`` (as strict, reporting GPUs held idle for the first in the
            queue) or ``fit`` (every job that fits may start).
    """

    mode: str = "strict"

    name: ClassVar[str] = "fifo"
    title: ClassVar[str] = "FIFO"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.mode not in ("strict", "hoard", "fit"):
            raise OptionError(f"fifo: mode must be strict, hoard or fit, not {self.mode!r}")

    def decide(self, view: View) -> Plan:
        """Keeps running jobs, then starts waiting ones in the order of the queue."""
        running, queue = running_and_queue(view)
        fill = Fill.SKIP if self.mode == "fit" else Fill.STRICT
        explain: dict[str, str] = {}
        holds: dict[str, int] = {}
        free, head, behind = free_gpus(view, running), None, 0
        for job in queue:
            need = gpus_of(job)
            if head is None and need <= free:
                free -= need
                continue
            if fill is Fill.SKIP:
                explain[job.id] = said("needs ", Gpus(need), f", {are(free)} left by those before it")
            elif head is None:
                head = job
                explain[job.id] = said("first in the queue: needs ", Gpus(need), f", {are(free)} free")
                if self.mode == "hoard":
                    holds[job.id] = free
                    kept = f" and kept idle for it; {need - free} more must become free"
                    explain[job.id] = said(explain[job.id], kept)
            else:
                behind += 1
                explain[job.id] = said(
                    f"{behind} behind ",
                    Job(head.id),
                    ", which needs ",
                    Gpus(gpus_of(head)),
                    f" ({are(free)} free); nobody may overtake",
                )
        order = tuple(job.id for job in (*running, *queue))
        return Plan(Order(order, fill, Spread.BEST_FIT), explain=explain, holds=holds)
