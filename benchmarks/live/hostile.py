"""Hostile jobs beside those of other tenants: the service lives, others do not notice, culprits can be ended.

Each batch of poisons runs on one life of a service: deeds are done, half of the jobs are cancelled, the service is
taken down and up again with the rest in place, and those are cancelled by the next life.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence

from benchmarks.harness import Bench, Stuck
from benchmarks.live.bystanders import LOOK_S, TENANT, Bystanders, ended
from benchmarks.live.poisons import HEAVY, QUICK, Poison, batches, innocent, own, shared
from benchmarks.live.probing import Probe
from benchmarks.live.scripts.poisons.place import DEEDS
from benchmarks.live.system import System, alive, kill_one
from benchmarks.live.verdict import CANCEL_S, LEFT_S, Outcome, judge
from elastane.client import Client
from elastane.client.errors import RequestRefused
from elastane.engines.local.json_files import started
from elastane.engines.local.marked_processes import marked
from elastane.errors import ElastaneError

_BATCH = 12
_DEED_S, _SETTLE_S = 30.0, 2.0


class Trial:
    """One home with its bystanders, through all batches."""

    def __init__(self, bench: Bench, system: System) -> None:
        self._bench, self._system = bench, system
        self._scratch = bench.folder / "scratch"
        self._others = Bystanders(system.home, bench.folder / "others")
        (bench.folder / "others").mkdir(parents=True)
        self._starts = 0
        self.outcome = Outcome()

    def begin(self) -> None:
        """Everybody is let in; the others train."""
        self._up()
        with self._system.client() as admin:
            admin.add_user("ann", tenant=TENANT)
            admin.add_user("eve", tenant="eve")
            self._tokens = {name: admin.new_token(name).token for name in ("ann", "eve")}
        with self._as("ann") as ann:
            self._others.begin(ann)

    def _up(self) -> None:
        self._system.start()
        self._starts += 1

    def _as(self, name: str) -> Client:
        return Client((self._system.home / "url").read_text().strip(), self._tokens[name], timeout_s=30.0)

    def batch(self, number: int, label: str, poisons: Sequence[Poison]) -> None:
        """One life of the service and the beginning of the next; a death is noted, and the next batch begins anew."""
        print(
            f"       {label} (load {os.getloadavg()[0]:.1f}): {', '.join(p.name for p in poisons)}", flush=True
        )
        jobs: dict[str, str] = {}
        try:
            self._poison(number, label, poisons, jobs)
            self._system.end()
            self._up()
            self._restarted(label, jobs)
        except (Stuck, ElastaneError, OSError) as problem:
            self.outcome.deaths.append(f"{label}: {problem}; {self._system.last_words()}")
            self._system.kill()
            self._recover(label, jobs)
        self._note_left(jobs)

    def _recover(self, label: str, jobs: dict[str, str]) -> None:
        try:
            self._up()
            self._end(jobs, list(jobs))
        except (ElastaneError, OSError) as problem:
            raise Stuck(f"{label}: nothing works any more: {problem}; {self._system.last_words()}") from problem

    def _poison(self, number: int, label: str, poisons: Sequence[Poison], jobs: dict[str, str]) -> None:
        with self._probed(label), self._as("eve") as eve, self._as("ann") as ann:
            for poison in poisons:
                (self._scratch / poison.name).mkdir(parents=True)
                jobs[poison.name] = eve.submit(poison.spec(), directory="/").id
            self._others.add_short(ann, number)
            self._wait_for_deeds(eve, jobs)
            time.sleep(_SETTLE_S)
            self._end(jobs, list(jobs)[::2])
            self._others.judge_short(ann)
            self._others.train_on()
            self._others.judge_trained(ann, self._starts)

    def _restarted(self, label: str, jobs: dict[str, str]) -> None:
        with self._probed(label), self._as("ann") as ann:
            time.sleep(_SETTLE_S)
            self._end(jobs, list(jobs)[1::2])
            self._others.train_on()
            self._others.judge_trained(ann, self._starts)

    def _probed(self, label: str) -> Probe:
        probe = Probe((self._system.home / "url").read_text().strip(), self._system.pid)
        seen = self.outcome.seen.setdefault(label, probe.seen)
        if seen is not probe.seen:  # the second life of a batch adds to the first
            self.outcome.seen[f"{label}, again"] = probe.seen
        return probe

    def _wait_for_deeds(self, eve: Client, jobs: dict[str, str]) -> None:
        give_up_s = time.monotonic() + _DEED_S
        waiting = dict(jobs)
        while waiting and time.monotonic() < give_up_s:
            over = ended(eve)
            waiting = {
                name: job
                for name, job in waiting.items()
                if not (self._scratch / name / "deed").exists() and job not in over
            }
            time.sleep(LOOK_S)
        self.outcome.undone += waiting

    def _end(self, jobs: dict[str, str], names: Sequence[str]) -> None:
        """Cancel these, all at once, and see how long it takes."""
        with self._as("eve") as eve:
            asked_s = time.monotonic()
            over = ended(eve)
            waiting = {name: jobs[name] for name in names if jobs[name] not in over}
            for job in waiting.values():
                with contextlib.suppress(RequestRefused):  # it has just ended by itself
                    eve.cancel(job)
            while waiting and time.monotonic() < asked_s + 2 * CANCEL_S:
                over = ended(eve)
                for name in [name for name, job in waiting.items() if job in over]:
                    del waiting[name]
                    self.outcome.cancel_s.append(time.monotonic() - asked_s)
                time.sleep(LOOK_S)
            self.outcome.stubborn += [f"{name} is {eve.job(job).state}" for name, job in waiting.items()]

    def _note_left(self, jobs: dict[str, str]) -> None:
        """Who is still there ten seconds after the end, by its mark or because it owned up; they are ended here."""
        give_up_s = time.monotonic() + LEFT_S
        while (left := self._left(jobs)) and time.monotonic() < give_up_s:
            time.sleep(0.1)
        self.outcome.left += [f"{name} ({pid})" for pid, name in left.items()]
        while left := self._left(jobs):
            for pid in left:
                kill_one(pid)
        for name in jobs:
            harm, hindered = self._scratch / name / "harm", self._scratch / name / "hindered"
            self.outcome.harm += [f"{name}: {harm.read_text()}"] if harm.exists() else []
            self.outcome.hindered += [name] if hindered.exists() else []

    def _left(self, jobs: dict[str, str]) -> dict[int, str]:
        names = {job: name for name, job in jobs.items()}
        left = {pid: names.get(m.attempt.rpartition(".")[0], "") for pid, m in marked(self._system.home)}
        left = {pid: name for pid, name in left.items() if name}
        for name in jobs:
            path = self._scratch / name / "pids"
            lines = path.read_text().splitlines() if path.exists() else []
            for pid, _, since in (line.partition(" ") for line in lines):
                if since and started(int(pid)) == since:
                    left[int(pid)] = name
        return {pid: name for pid, name in left.items() if alive(pid)}

    def finish(self) -> int:
        """Down; how many processes are left of all."""
        self.outcome.harm += self._others.harm
        try:
            self._system.end()
        except (Stuck, OSError) as problem:
            self.outcome.deaths.append(f"the end: {problem}")
        return len(self._system.processes())


def hostile(bench: Bench, names: Sequence[str] = ()) -> None:
    """All poisons, or those of ``names``, a batch at a time."""
    scratch = bench.folder / "scratch"
    if unknown := set(names) - set(DEEDS):
        raise Stuck(f"there is no poison {', '.join(sorted(unknown))}")
    chosen = names or (QUICK if bench.quick else ())
    poisons = own(scratch, chosen) if chosen else [*own(scratch), *shared(scratch)]
    with System(bench.folder / "home", nodes=2, slots=_BATCH) as system:
        trial = Trial(bench, system)
        trial.begin()
        trial.batch(0, "innocent", innocent(scratch, _BATCH))
        try:
            for number, batch in enumerate(batches(poisons, _BATCH), start=1):
                heavy = batch[0].name in HEAVY
                trial.batch(number, f"{'heavy' if heavy else 'batch'} {number}", batch)
        except Stuck as problem:  # what was seen until then is told all the same
            trial.outcome.deaths.append(str(problem))
        left = trial.finish()
    judge(bench, trial.outcome, len(poisons), left)
