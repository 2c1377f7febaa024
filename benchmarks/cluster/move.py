"""A worker that moves between hosts, and what the way between two hosts costs two workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from benchmarks.cluster.results import tell
from benchmarks.cluster.site import Site
from benchmarks.cluster.stamps import excess_s
from benchmarks.harness import Bench

_WIDTHS = {"small state": 64, "state of 13 MB": 22_000}
"""Widths of the hidden layer; parameters, gradients and momentum are 75 floats each per unit."""
_WINDOW_S = 10.0
_SETTLE_S = 2.0
_HEAD = "n0"


def move(bench: Bench) -> None:
    """Moves of a lonely worker, then pairs of workers on one host and on two, in turn."""
    with Site(bench.folder, slots=1, cores=(2, 1)) as site:
        for name, width in _WIDTHS.items():
            tell(bench.figures, f"move: pause, {name}", moved(site, bench, width), 20.0, "ms")
        one, two = paired(site, bench)
    bench.figures.note(f"two workers: {median(one):.1f} steps/s on one host, {median(two):.1f} on two")
    bench.figures.at_least(
        "move: throughput of two workers on two hosts, of that on one", median(two) / median(one), 0.9, "gate"
    )


def moved(site: Site, bench: Bench, width: int) -> list[float]:
    """Milliseconds without a step beyond a usual one, from what the worker before and the one after wrote down."""
    name = f"move-{width}"
    job = site.train(name, 1, 1, f"--width={width}")
    site.until_members(job, 1)
    pauses_ms = list[float]()
    for _ in range(bench.count(20, 2)):
        time.sleep(_SETTLE_S)
        [(before, here)] = site.members(job).items()
        there = next(host.name for host in site.far if host.name != here)
        site.client.move(job, there)
        site.until(lambda there=there: list(site.members(job).values()) == [there], "moved")  # type: ignore[misc]
        time.sleep(_SETTLE_S)
        pauses_ms.append(excess_s(site.steps(name), [before], list(site.members(job))) * 1e3)
    site.client.cancel(job)
    return pauses_ms


def paired(site: Site, bench: Bench) -> tuple[list[float], list[float]]:
    """Steps per second of two workers on one host, and on two; turn by turn, so that both meet the same load."""
    large, small = (host.name for host in site.far)
    one, two = list[float](), list[float]()
    for turn in range(bench.count(5, 1)):
        one.append(rate(site, f"one-{turn}", [large], [small, _HEAD]))
        two.append(rate(site, f"two-{turn}", [small, _HEAD], [large]))
    return one, two


def rate(site: Site, name: str, open_nodes: Sequence[str], closed: Sequence[str]) -> float:
    """Steps per second of a job of two workers that has only these nodes to go to."""
    for node in open_nodes:
        site.client.undrain(node)
    for node in closed:
        site.client.drain(node)
    job = site.train(name, 2, 2, "--width=2000")
    site.until(
        lambda: len(there := site.members(job)) == 2 and set(there.values()) == set(open_nodes),
        f"{name}: trains",
    )
    time.sleep(_SETTLE_S)
    began_s = time.monotonic()
    time.sleep(_WINDOW_S)
    end_s = time.monotonic()
    numbers = {step.number for step in site.steps(name) if began_s <= step.end_s <= end_s}
    site.client.cancel(job)
    site.until(lambda: site.client.job(job).ended_s is not None, f"{name}: ended")
    return len(numbers) / (end_s - began_s)
