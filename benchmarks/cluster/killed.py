"""A host whose processes are all killed: its kernel says so to the others, and survivors go on."""

from __future__ import annotations

import time

from benchmarks.cluster.results import tell
from benchmarks.cluster.site import Site
from benchmarks.cluster.stamps import again_s, trained_twice
from benchmarks.harness import Bench
from elastane.testing.hosts import Host

JOB = "job"
WORKERS = 3
"""Of a job that fits on any two of the three hosts, which have five slots together."""


def killed(bench: Bench) -> None:
    """Kill a host with workers, let it come back, again and again."""
    steps_s, lost_s, places_s, full_s = [list[float]() for _ in range(4)]
    with Site(bench.folder) as site:
        job = site.train(JOB, 1, WORKERS)
        for turn in range(bench.count(20, 2)):
            site.resize(job, WORKERS)
            site.rest()
            host = victim(site, job, turn)
            survivors = {name for name, node in site.members(job).items() if node != host.name}
            at_s = time.monotonic()
            host.kill(silently=False)
            lost_s.append(site.until(lambda host=host: site.is_lost(host), "lost") - at_s)  # type: ignore[misc]
            places_s.append(site.until_members(job, WORKERS, without=[host.name]) - at_s)
            steps_s.append(again_s(site.steps(JOB), survivors, at_s) or float("inf"))
            waiting = site.waiting_pair(turn)
            host.boot()
            site.join(host)
            back_s = site.until(lambda host=host: site.stands(host), "back")  # type: ignore[misc]
            full_s.append(site.until_members(waiting, 2) - back_s)
            site.client.cancel(waiting)
        twice = trained_twice(site.steps(JOB))
    tell(bench.figures, "killed: survivors step again", steps_s, 2.0)
    tell(bench.figures, "killed: control plane says lost", lost_s)
    tell(bench.figures, "killed: new places", places_s)
    tell(bench.figures, "killed: full size after the node is back", full_s)
    bench.figures.at_most("killed: steps with two histories", twice, 0, "gate")


def victim(site: Site, job: str, turn: int) -> Host:
    """A host that has workers of the job, which has others elsewhere: not always the same."""
    nodes = set(site.members(job).values())
    hosts = [host for host in site.far if host.name in nodes]
    return hosts[turn % len(hosts)]
