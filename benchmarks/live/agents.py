"""kill −9 of agents (the loss of a node), of workers and of supervisors: jobs go on and nobody is left over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.harness import Bench
from benchmarks.live.census import Census, agent_pids, supervisors, take_census
from benchmarks.live.jobs import laps_of, lines_of, short, training
from benchmarks.live.system import System, kill_one, until
from benchmarks.train.timeline import Lap
from elastane.client import Client
from elastane.service.messages import JobDetail

INTERVAL_S = 3.0
"""Between checkpoints."""
_SIZES: Mapping[str, Mapping[str, int]] = {"pair": {"min": 2, "max": 2}, "single": {"min": 1, "max": 1}}
_SHORT_S = 2.0


@dataclass(frozen=True, slots=True)
class Harm:
    """One kill: of what, when (monotonic), and which jobs lost all (True) or some (False) of their workers."""

    what: str
    at_s: float
    hit: Mapping[str, bool]


@dataclass(slots=True)
class Outcome:
    """What all kills together cost."""

    harms: list[Harm] = field(default_factory=list)
    resumed_s: list[float] = field(default_factory=list)
    agreed_s: list[float] = field(default_factory=list)
    steps_lost: list[int] = field(default_factory=list)
    """Of jobs that kept a worker."""
    work_lost_s: list[float] = field(default_factory=list)
    """Of jobs that kept none."""
    step_s: float = 0.0
    since_s: dict[str, float] = field(default_factory=dict)
    """When each job last went on after a loss: steps before that are no part of the next one."""
    disagreements: list[str] = field(default_factory=list)


def agents(bench: Bench) -> None:
    """One kill after the other, each when everybody trains again."""
    kills, chance = bench.count(50, 6), random.Random(bench.seed)
    outcome, runs = Outcome(), bench.folder / "runs"
    runs.mkdir()
    with System(bench.folder / "home") as system:
        system.start()
        with system.client() as client:
            jobs = {
                name: client.submit(
                    training(bench.folder / name, size, every_s=INTERVAL_S, pause_s=0.05), directory="/"
                ).id
                for name, size in _SIZES.items()
            }
            labels = [f"short-{i}" for i in range(max(1, kills // 3))]
            taken = [
                client.submit(short(runs, label, _SHORT_S, retries=100), directory="/").id for label in labels
            ]
            for number in range(kills):
                _all_train(bench.folder, client, jobs)
                time.sleep(chance.uniform(0.0, INTERVAL_S))
                _one_kill(bench, system, client, jobs, _CHOICES[number % len(_CHOICES)], chance, outcome)
            _all_train(bench.folder, client, jobs)
            until(lambda: all(client.job(job).ended_s for job in taken), "the end of the short jobs", 300.0)
            unfinished = sum(client.job(job).state != "succeeded" for job in taken)
        system.end()
        left = len(system.processes())
    again = sum(lines_of(runs, label, "begin") - 1 for label in labels)
    bench.figures.note(f"{len(labels)} short jobs among them started over {again} times")
    _judge(bench, outcome, unfinished, left)


def _all_train(folder: Path, client: Client, jobs: Mapping[str, str]) -> None:
    """Wait until every training job has all its workers and has made steps with them."""
    for name, job in jobs.items():
        wanted = _SIZES[name]["min"]
        until(lambda: len(_members(client.job(job))) == wanted, f"{wanted} workers of the {name} job")  # noqa: B023
        now_s = time.monotonic()
        until(
            lambda: any(lap.end_s > now_s and lap.world == wanted for lap in laps_of(folder / name)[-50:]),  # noqa: B023
            f"a step of the {name} job",
        )


def _members(detail: JobDetail) -> Mapping[int, str]:
    """Node by process."""
    return {worker.pid: worker.node for worker in detail.processes if worker.pid and worker.doing == "member"}


def _one_kill(
    bench: Bench,
    system: System,
    client: Client,
    jobs: Mapping[str, str],
    choose: Callable[[System, Mapping[str, Mapping[int, str]], random.Random], tuple[str, int, set[int]]],
    chance: random.Random,
    outcome: Outcome,
) -> None:
    workers = {
        name: until(lambda: _members(client.job(job)), f"workers of the {name} job")  # noqa: B023
        for name, job in jobs.items()
    }
    before = {name: laps_of(bench.folder / name) for name in jobs}
    outcome.step_s = max(
        [outcome.step_s, *(median(lap.duration_s for lap in laps) for laps in before.values())]
    )
    what, victim, dying = choose(system, workers, chance)
    at_s = time.monotonic()
    if not kill_one(victim):
        return
    hit = {name: dying >= pids.keys() for name, pids in workers.items() if dying & pids.keys()}
    outcome.harms.append(Harm(what, at_s, hit))
    outcome.agreed_s.append(_agreement_s(system, client, at_s, outcome))
    for name, all_gone in hit.items():
        resumed = partial(_resumed, bench.folder / name, at_s, len(workers[name]))
        first = until(resumed, f"the {name} job goes on")
        outcome.resumed_s.append(first.end_s - at_s)
        since_s = outcome.since_s.get(name, 0.0)
        made = [
            lap for lap in laps_of(bench.folder / name) if since_s <= lap.begin_s and lap.end_s < first.begin_s
        ]
        lost = [lap for lap in made if lap.step >= first.step and lap.rank == 0]
        outcome.since_s[name] = first.begin_s
        if all_gone:
            outcome.work_lost_s.append(sum(lap.duration_s for lap in lost))
        else:
            outcome.steps_lost.append(len({lap.step for lap in lost}))


def _resumed(stamps: Path, at_s: float, world: int) -> Lap | None:
    """The first step that began after the harm, by whoever was left."""
    later = [lap for lap in laps_of(stamps) if lap.begin_s > at_s]
    return later[0] if later and any(lap.world == world for lap in later) else None


def _agreement_s(system: System, client: Client, at_s: float, outcome: Outcome) -> float:
    """How long after the kill machine and service agreed (twice in a row) on who is there."""
    last: Census | None = None
    while time.monotonic() < at_s + 30.0:
        looked_s = time.monotonic()
        last = take_census(system, client)
        if last.agrees and take_census(system, client).agrees:
            return looked_s - at_s
        time.sleep(0.1)
    outcome.disagreements.append(str(last))
    return time.monotonic() - at_s


def _an_agent(
    system: System, workers: Mapping[str, Mapping[int, str]], chance: random.Random
) -> tuple[str, int, set[int]]:
    node, pid = chance.choice(sorted(agent_pids(system.home).items()))
    return (
        f"the agent of {node}",
        pid,
        {w for pids in workers.values() for w, place in pids.items() if place == node},
    )


def _a_worker(
    _: System, workers: Mapping[str, Mapping[int, str]], chance: random.Random
) -> tuple[str, int, set[int]]:
    name = chance.choice(["pair", "pair", "single"])
    pid = chance.choice(sorted(workers[name]))
    return f"a worker of the {name} job", pid, {pid}


def _a_supervisor(
    system: System, _: Mapping[str, Mapping[int, str]], chance: random.Random
) -> tuple[str, int, set[int]]:
    return "a supervisor", chance.choice(sorted(supervisors(system.home))), set()


_CHOICES = (_an_agent, _a_worker, _a_worker, _an_agent, _a_supervisor, _a_worker)


def _judge(bench: Bench, outcome: Outcome, unfinished: int, left: int) -> None:
    figures = bench.figures
    kinds = [harm.what.split()[1] for harm in outcome.harms]
    counts = ", ".join(f"{kinds.count(kind)} × {kind}" for kind in sorted(set(kinds)))
    figures.note(
        f"{len(outcome.harms)} kills ({counts}); training again after a median of {median(outcome.resumed_s):.1f} s, "
        f"at most {max(outcome.resumed_s):.1f} s; a step takes {outcome.step_s:.2f} s"
    )
    for words in outcome.disagreements[:5]:
        figures.note(words)
    if outcome.steps_lost:
        figures.at_most("agents: steps lost by a job that kept a worker", max(outcome.steps_lost), 1, "gate")
    if outcome.work_lost_s:
        limit_s = INTERVAL_S + outcome.step_s
        figures.at_most(
            f"agents: work lost by a job that kept none (checkpoints every {INTERVAL_S:g} s)",
            max(outcome.work_lost_s), round(limit_s, 2), "gate", "s",
        )  # fmt: skip
    figures.at_most("agents: processes = known processes after", max(outcome.agreed_s), 10.0, "gate", "s")
    figures.at_most("agents: short jobs that did not succeed", unfinished, 0, "gate")
    figures.at_most("agents: processes left after the end", left, 0, "gate")
