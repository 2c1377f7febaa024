"""A network cable that is pulled: for 3 s, which costs nobody its place, and for 60 s, until the node is given up."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from benchmarks.cluster.killed import JOB, WORKERS, victim
from benchmarks.cluster.results import tell
from benchmarks.cluster.site import Site
from benchmarks.cluster.stamps import again_s, late_checkpoints, trained_twice
from benchmarks.harness import Bench, Stuck
from benchmarks.live.system import alive
from elastane.testing.hosts import Host
from elastane.train.reports.events import WorkerLost

SHORT_S, LONG_S = 3.0, 60.0
_AFTERWARDS_S = 5.0
"""How long workers may still be given up after a short cut: leases are of 5 and 6 s."""


@dataclass(slots=True)
class Outcome:
    """What all cuts together cost, in seconds."""

    replaced: int = 0
    short_s: list[float] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)
    lost_s: list[float] = field(default_factory=list)
    places_s: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    back_s: list[float] = field(default_factory=list)
    full_s: list[float] = field(default_factory=list)


def cable(bench: Bench) -> None:
    """Pull the cable of a host with workers, shortly and long, again and again."""
    seen = Outcome()
    with Site(bench.folder) as site:
        job = site.train(JOB, 1, WORKERS)
        for turn in range(bench.count(20, 2)):
            site.resize(job, WORKERS)
            site.rest()
            host = victim(site, job, turn)
            short_cut(site, job, host, seen)
            site.until_members(job, WORKERS)
            host = victim(site, job, turn)
            long_cut(site, job, host, seen, turn)
        twice = trained_twice(site.steps(JOB))
        late = late_checkpoints(site.cluster.checkpoints)
    figures = bench.figures
    figures.at_most("cable, 3 s: workers replaced", seen.replaced, 0, "gate")
    tell(figures, "cable, 3 s: training again after it is back", seen.short_s)
    tell(figures, "cable: survivors step again", seen.steps_s, 7.0)
    tell(figures, "cable: control plane says lost", seen.lost_s, 7.0)
    tell(figures, "cable: new places", seen.places_s, 10.0)
    tell(figures, "cable, back after 60 s: stale attempts ended", seen.ended_s, 2.0)
    tell(figures, "cable, back after 60 s: the node counts", seen.back_s)
    tell(figures, "cable, back after 60 s: full size", seen.full_s, 15.0)
    figures.at_most("cable: steps with two histories", twice, 0, "gate")
    figures.at_most("cable: checkpoints of a generation that was over", late, 0, "gate")


def short_cut(site: Site, job: str, host: Host, seen: Outcome) -> None:
    """Pull the cable and put it back before anybody's lease ends."""
    site.events(job)
    before = site.members(job)
    host.cut()
    time.sleep(SHORT_S)
    host.mend()
    mended_s = time.monotonic()
    time.sleep(_AFTERWARDS_S)
    after = site.members(job)
    lost = {event.worker for event in site.events(job) if isinstance(event, WorkerLost)}
    seen.replaced += len(lost | {name for name in before if name not in after})
    seen.short_s.append(again_s(site.steps(JOB), before.keys(), mended_s) or float("inf"))


def long_cut(site: Site, job: str, host: Host, seen: Outcome, turn: int) -> None:
    """Pull the cable until everybody has given the host up, then put it back."""
    survivors = {name for name, node in site.members(job).items() if node != host.name}
    stale = site.workers_on(host)
    if not stale:
        raise Stuck(f"{host.name} has no workers")
    at_s = time.monotonic()
    host.cut()
    seen.lost_s.append(site.until(lambda: site.is_lost(host), "lost") - at_s)
    seen.places_s.append(site.until_members(job, WORKERS, without=[host.name]) - at_s)
    seen.steps_s.append(again_s(site.steps(JOB), survivors, at_s) or float("inf"))
    waiting = site.waiting_pair(turn)
    time.sleep(max(0.0, at_s + LONG_S - time.monotonic()))
    host.mend()
    mended_s = time.monotonic()
    seen.ended_s.append(site.until(lambda: not any(map(alive, stale)), "stale attempts ended") - mended_s)
    seen.back_s.append(site.until(lambda: site.stands(host), "back") - mended_s)
    seen.full_s.append(site.until_members(waiting, 2) - mended_s)
    site.client.cancel(waiting)
