"""kill −9 of the control plane, again and again, while jobs come, run and end: none is lost, none runs twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Protocol

from benchmarks.harness import Bench
from benchmarks.live.jobs import laps_of, latest_step, lines_of, short, training
from benchmarks.live.past import write_past
from benchmarks.live.system import System, until
from elastane.client import Client
from elastane.engines.local.paths import Layout
from elastane.errors import ElastaneError
from elastane.jobs.states import TERMINAL
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Resized, Stepped, WorkerLost

_ENDED = frozenset(state.value for state in TERMINAL)
PAST_JOBS = 10_000
_EARLY = 0.25
"""Part of the kills that may hit a control plane which does not serve yet."""


@dataclass(slots=True)
class Witness:
    """What was promised so far, and what broke it."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """Job by label."""
    ended: dict[str, str] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    changed: list[str] = field(default_factory=list)
    went_back: list[str] = field(default_factory=list)

    def look(self, client: Client) -> int:
        """Compare with what is said now; returns how many jobs have ended."""
        promised = dict(self.acknowledged)  # taken first: more may come in meanwhile
        states = {job.id: job.state for job in client.jobs("all", limit=10_000)}
        self.lost |= {job for job in promised.values() if job not in states}
        for job, before in self.ended.items():
            if states.get(job) != before:
                self.changed.append(f"{job}: {before}, then {states.get(job)}")
        self.ended |= {job: state for job, state in states.items() if state in _ENDED}
        return len(self.ended)

    def look_at_training(self, client: Client, job: str) -> None:
        """Its step counter, as people are shown it."""
        told = client.job(job).training
        step = told.step if told else 0
        if step < self.steps.get(job, 0):
            self.went_back.append(f"{job}: step {self.steps[job]}, then {step}")
        self.steps[job] = step


class Asked(Protocol):
    """Whatever there is a client for, as long as somebody answers."""

    def client(self, timeout_s: float) -> AbstractContextManager[Client]:
        """For one request or a few."""
        ...


class Stream(threading.Thread):
    """Hands jobs in, each until it was taken, whoever dies meanwhile."""

    def __init__(self, system: Asked, jobs: Mapping[str, Mapping[str, Any]], witness: Witness) -> None:
        super().__init__(daemon=True)
        self.due = threading.Semaphore(0)
        self._system, self._jobs, self._witness = system, jobs, witness

    def run(self) -> None:
        """One after the other, as they fall due."""
        for label, spec in self._jobs.items():
            self.due.acquire()
            while label not in self._witness.acknowledged:
                with suppress(ElastaneError, OSError), self._system.client(timeout_s=5.0) as client:
                    self._witness.acknowledged[label] = client.submit(spec, directory="/", key=label).id
                time.sleep(0.02)


def control(bench: Bench) -> None:
    """Kills; then how fast it is back with a long past."""
    _kills(bench)
    _restarts(bench)


def _kills(bench: Bench) -> None:
    kills, count = bench.count(200, 10), bench.count(100, 12)
    chance, folder = random.Random(bench.seed), bench.folder / "runs"
    folder.mkdir()
    labels = [f"job-{i}" for i in range(count)]
    jobs = {label: short(folder, label, chance.uniform(0.1, 3.0)) for label in labels}
    witness, served_s = Witness(), list[float]()
    with System(bench.folder / "home") as system:
        system.start()
        trained = _start_training(system, bench.folder)
        stream = Stream(system, jobs, witness)
        stream.start()
        for number in range(kills):
            for _ in range((number + 1) * count // kills - number * count // kills):
                stream.due.release()
            system.kill()
            served_s += _live_and_die(system, witness, trained, chance)
        system.kill()
        system.start()
        stream.join(60.0)
        with system.client() as client:
            until(lambda: witness.look(client) >= count, "the end of all jobs")
            attempts = {name: client.job(job).attempt for name, job in trained.items()}
        code = system.end()
        left = len(system.processes())
    bench.figures.note(f"{kills} kills, {len(served_s)} of them while it served, during {count} jobs")
    _judge_jobs(bench, witness, labels, folder)
    _judge_training(bench, witness, trained, attempts)
    _judge_restarts(bench, "restart to serving beside training", served_s, 5.0)
    bench.figures.at_most("control: processes left after the end", left + bool(code), 0, "gate")


def _live_and_die(
    system: System, witness: Witness, trained: Mapping[str, str], chance: random.Random
) -> list[float]:
    """One life of a control plane, without its end; how long it took to serve, if it came to that."""
    began_s = time.monotonic()
    process = system.launch()
    if chance.random() < _EARLY:
        time.sleep(chance.uniform(0.0, 1.5))
        return []
    system.wait_for(process)
    served_s = time.monotonic() - began_s
    with system.client() as client:
        witness.look(client)
        for job in trained.values():
            witness.look_at_training(client, job)
    time.sleep(chance.uniform(0.0, 2.0))
    return [served_s]


def _start_training(system: System, folder: Path) -> dict[str, str]:
    """One job of fixed size, and one that may grow; both train before the first kill."""
    sizes = {"fixed": {"min": 1, "max": 1}, "elastic": {"min": 1, "max": 2}}
    with system.client() as client:
        jobs = {
            name: client.submit(training(folder / name, size, every_s=600.0, pause_s=0.05), directory="/").id
            for name, size in sizes.items()
        }
    for name in sizes:
        until(lambda name=name: latest_step(folder / name) > 5, f"training of the {name} job")  # type: ignore[misc]
    return jobs


def _judge_jobs(bench: Bench, witness: Witness, labels: list[str], folder: Path) -> None:
    figures = bench.figures
    unsuccessful = [f"{job}: {state}" for job, state in witness.ended.items() if state != "succeeded"]
    for words in [*unsuccessful, *witness.changed, *witness.went_back][:10]:
        figures.note(words)
    figures.at_most(
        "control: submissions never taken", len(set(labels) - witness.acknowledged.keys()), 0, "gate"
    )
    figures.at_most("control: jobs lost", len(witness.lost), 0, "gate")
    runs = [lines_of(folder, label, "begin") for label in labels]
    figures.at_most("control: jobs run more than once", sum(n > 1 for n in runs), 0, "gate")
    ends = [lines_of(folder, label, "end") for label in labels]
    figures.at_most("control: jobs not run to their end", sum(n == 0 for n in ends), 0, "gate")
    figures.at_most("control: jobs that did not succeed", len(unsuccessful), 0, "gate")
    figures.at_most("control: terminal states changed", len(witness.changed), 0, "gate")


def _judge_training(
    bench: Bench, witness: Witness, trained: Mapping[str, str], attempts: Mapping[str, int]
) -> None:
    figures = bench.figures
    for name, job in trained.items():
        laps = laps_of(bench.folder / name)
        events = load_run(Layout(bench.folder / "home").records(job))
        told = [event.step for event in events if isinstance(event, Stepped)]
        back = sum(b < a for a, b in pairwise(told))
        harmed = sum(
            isinstance(e, WorkerLost) or (isinstance(e, Resized) and e.kind == "recover") for e in events
        )
        resizes = sum(isinstance(e, Resized) and e.kind != "start" for e in events)
        figures.note(f"{name}: {laps[-1].step} steps, {attempts[name]} attempts, {resizes} resizes")
        figures.at_most(f"control: {name} training, step counter went back", back, 0, "gate")
        figures.at_most(f"control: {name} training, workers lost", harmed, 0, "gate")
        figures.at_most(f"control: {name} training, attempts", attempts[name], 1, "gate")
    figures.at_most("control: step counter shown went back", len(witness.went_back), 0, "gate")


def _judge_restarts(bench: Bench, name: str, times_s: list[float], limit_s: float) -> None:
    p95_s = quantiles(times_s, n=20, method="inclusive")[-1] if len(times_s) > 1 else times_s[0]
    bench.figures.note(f"{name}: median {median(times_s):.2f} s, longest {max(times_s):.2f} s")
    bench.figures.at_most(f"control: {name}, 95th percentile", p95_s, limit_s, "gate", "s")


def _restarts(bench: Bench) -> None:
    jobs = PAST_JOBS
    with System(bench.folder / "old") as system:
        write_past(system.home, jobs)
        cold_s = system.start()
        idle = []
        for _ in range(bench.count(20, 3)):
            system.rest()
            system.kill()
            idle.append(system.start())
        bench.figures.note(f"{jobs:,} finished jobs; the first start, agents included, took {cold_s:.2f} s")
        _judge_restarts(bench, f"restart to serving with {jobs:,} finished jobs, idle", idle, 2.0)
        (bench.folder / "beside").mkdir()
        _start_training(system, bench.folder / "beside")
        busy = []
        for _ in range(bench.count(20, 3)):
            system.kill()
            busy.append(system.start())
        _judge_restarts(bench, f"restart to serving with {jobs:,} finished jobs, beside training", busy, 5.0)
        system.end()
