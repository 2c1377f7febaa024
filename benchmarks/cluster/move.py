"""A worker that moves between hosts, and what the way between two hosts costs two workers."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.cluster.results import tell
from benchmarks.cluster.site import Site
from benchmarks.harness import Bench
from elastane.train.reports.events import Resized

_WIDTHS = {"small state": 64, "state of 13 MB": 22_000}
"""Widths of the hidden layer; parameters, gradients and momentum are 75 floats each per unit."""
_WINDOW_S = 10.0
_SETTLE_S = 2.0


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
    """Pauses in ms, as the job reported them."""
    job = site.train(f"move-{width}", 1, 1, f"--width={width}")
    site.until_members(job, 1)
    pauses_ms = list[float]()
    for _ in range(bench.count(20, 2)):
        [here] = site.members(job).values()
        there = next(host.name for host in site.far if host.name != here)
        site.events(job)
        site.client.move(job, there)
        site.until(lambda there=there: list(site.members(job).values()) == [there], "moved")  # type: ignore[misc]
        heard = list[Resized]()

        def told(job: str = job, heard: list[Resized] = heard) -> bool:
            heard += [event for event in site.events(job) if isinstance(event, Resized)]
            return bool(heard)

        site.until(told, "its pause was told")
        for event in heard:
            parts = ", ".join(f"{name} {part_s * 1e3:.3g}" for name, part_s in event.breakdown.items())
            bench.figures.note(f"{event.kind}, shadow {event.shadow}: {event.pause_s * 1e3:.3g} ms ({parts})")
        pauses_ms += [event.pause_s * 1e3 for event in heard]
    site.client.cancel(job)
    return pauses_ms


def paired(site: Site, bench: Bench) -> tuple[list[float], list[float]]:
    """Steps per second of two workers on one host, and on two; turn by turn, so that both meet the same load."""
    pair, wide = site.far[0], site.far[1]
    job = site.train("pair", 2, 2, "--width=2000")
    one, two = list[float](), list[float]()
    for _ in range(bench.count(5, 1)):
        site.client.undrain(pair.name)
        site.client.move(job, pair.name)
        site.until(lambda: list(site.members(job).values()) == [pair.name] * 2, "two on one host")
        one.append(rate(site))
        site.client.resume(job)
        site.client.drain(pair.name)
        site.until(lambda: set(site.members(job).values()) == {"n0", wide.name}, "two on two hosts")
        two.append(rate(site))
    return one, two


def rate(site: Site) -> float:
    """Steps per second over a while."""
    time.sleep(_SETTLE_S)
    began_s = time.monotonic()
    time.sleep(_WINDOW_S)
    took_s = time.monotonic() - began_s
    numbers = {step.number for step in site.steps("pair") if began_s <= step.end_s <= began_s + took_s}
    return len(numbers) / took_s
