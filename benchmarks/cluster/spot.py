"""A machine that says that it will be taken away in 30 s: it has to be empty by then, and nobody may stop for long."""

from __future__ import annotations

import os
import signal
import time

from benchmarks.cluster.killed import JOB, WORKERS, victim
from benchmarks.cluster.results import tell
from benchmarks.cluster.site import Site, words_of
from benchmarks.cluster.stamps import longest_gap_s, trained_twice
from benchmarks.harness import Bench, Stuck
from elastane.testing.hosts import Host
from elastane.train.reports.events import WorkerLost

NOTICE_S = 30.0
"""What ``elastane node`` takes for granted when it is told (``--notice-s``)."""
_NODE = b"elastane\0node\0"


def spot(bench: Bench) -> None:
    """Give notice to a host with workers, take it away when its time is up, let it come back, again and again."""
    empty_s, pauses_s, lost = list[float](), list[float](), 0
    with Site(bench.folder) as site:
        job = site.train(JOB, 1, WORKERS, preemptible=True)
        for turn in range(bench.count(20, 2)):
            site.resize(job, WORKERS)
            site.rest()
            host = victim(site, job, turn)
            site.events(job)
            at_s = time.monotonic()
            give_notice(host)
            gone_s = site.until(lambda host=host: not site.workers_on(host), "empty")  # type: ignore[misc]
            empty_s.append(gone_s - at_s)
            site.until_members(job, WORKERS, without=[host.name])
            site.rest()
            pauses_s.append(longest_gap_s(site.steps(JOB), at_s, time.monotonic()))
            lost += sum(isinstance(event, WorkerLost) for event in site.events(job))
            host.kill(silently=False)
            site.until(lambda host=host: site.is_lost(host), "lost")  # type: ignore[misc]
            host.boot()
            site.join(host)
            site.until(lambda host=host: site.stands(host), "back")  # type: ignore[misc]
        twice = trained_twice(site.steps(JOB))
    tell(bench.figures, f"spot, notice of {NOTICE_S:g} s: node empty", empty_s, NOTICE_S)
    tell(bench.figures, "spot: time without a step beyond a usual one", pauses_s, 1.0)
    bench.figures.at_most("spot: workers lost", lost, 0, "gate")
    bench.figures.at_most("spot: steps with two histories", twice, 0, "gate")


def give_notice(host: Host) -> None:
    """Tell the node of a host, as whoever hears of the notice would."""
    nodes = [pid for pid in host.processes() if _NODE in words_of(pid)]
    if not nodes:
        raise Stuck(f"{host.name} has no node")
    for pid in nodes:
        os.kill(pid, signal.SIGUSR1)
