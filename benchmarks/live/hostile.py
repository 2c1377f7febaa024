"""Hostile jobs beside those of other tenants: the service lives, others do not notice, culprits can be ended.

Each batch of poisons runs on one life of a service: deeds are done, half of the jobs are cancelled, the service is
taken down and up again with the rest in place, and those are cancelled by the next life.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Bench, Stuck
from benchmarks.live.as_users import NotHere, place
from benchmarks.live.bystanders import LOOK_S, TENANT, Bystanders, ended
from benchmarks.live.poisons import (
    APART,
    BOMB,
    HEAVY,
    QUICK,
    Poison,
    adaptive,
    batches,
    innocent,
    own,
    shared,
    shared_folder,
)
from benchmarks.live.probing import Probe
from benchmarks.live.system import System, alive, kill_one
from benchmarks.live.verdict import CANCEL_S, LEFT_S, Outcome, judge
from benchmarks.train.live import environment
from elastane.client import Client
from elastane.client.errors import RequestRefused
from elastane.engines.local.json_files import started
from elastane.engines.local.marked_processes import marked
from elastane.errors import ElastaneError

_BATCH = 12
_DEED_S, _SETTLE_S = 30.0, 2.0
_BOMB_S, _BOMB_BYTES = 20.0, 4 << 30


class Trial:
    """One home with its bystanders, through all batches."""

    def __init__(self, folder: Path, system: System, outcome: Outcome, tag: str = "") -> None:
        self._system, self._tag = system, tag
        self._scratch = folder / "scratch"
        self._others = Bystanders(system.home, folder / "others", system.python)
        _open_folder(folder / "others")
        self._starts = 0
        self.outcome = outcome

    def begin(self) -> None:
        """Everybody is let in; the others train."""
        self._up()
        with self._system.client() as admin:
            admin.add_user("ann", tenant=f"{TENANT}{self._tag}")
            admin.add_user("eve", tenant=f"eve{self._tag}")
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
                _open_folder(self._scratch / poison.name)
                jobs[poison.name] = eve.submit(poison.spec(), directory="/").id
            self._others.add_short(ann, number)
            self._wait_for_deeds(eve, jobs)
            if number == 1:
                self._submit_bomb()
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
        """Until all deeds are done; who has ended without one has not done it."""
        give_up_s = time.monotonic() + _DEED_S
        over: set[str] = set()
        waiting = dict(jobs)
        while waiting.keys() - over and time.monotonic() < give_up_s:
            ids = ended(eve)
            over = {name for name, job in jobs.items() if job in ids}
            waiting = {
                name: job for name, job in waiting.items() if not (self._scratch / name / "deed").exists()
            }
            time.sleep(LOOK_S)
        for name, job in waiting.items():
            broken = self._scratch / name / "broken"
            last = broken.read_text().strip().splitlines()[-1:] if broken.exists() else []
            self.outcome.undone.append(f"{name} is {eve.job(job).state} {': '.join(['', *last])}".rstrip())

    def _submit_bomb(self) -> None:
        """Hand the YAML bomb in as its owner would: refused in one line, soon, and within the memory of a command."""
        folder = shared_folder()
        if folder is None or not (folder / BOMB).exists():
            self.outcome.skipped.append(f"{BOMB}: it is not there")
            return
        url = (self._system.home / "url").read_text().strip()
        began_s = time.monotonic()
        try:
            done = subprocess.run(
                [self._system.python, "-m", "elastane", "submit", str(folder / BOMB)],
                env=environment(ELASTANE_URL=url, ELASTANE_TOKEN=self._tokens["eve"]),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_BOMB_BYTES, _BOMB_BYTES)),
                capture_output=True,
                text=True,
                timeout=_BOMB_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.outcome.bombs.append(f"{BOMB}: no answer within {_BOMB_S:g} s")
            return
        lines = done.stderr.strip().splitlines()
        if done.returncode != 2 or len(lines) != 1:
            self.outcome.bombs.append(f"{BOMB}: exit code {done.returncode}: {' / '.join(lines[-3:])}")
        else:
            self.outcome.refused.append(f"{BOMB} after {time.monotonic() - began_s:.1f} s: {lines[0]}")

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


def _open_folder(folder: Path) -> None:
    """One in which jobs may write, whoever they run as."""
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def chosen(scratch: Path, names: Sequence[str], *, quick: bool) -> list[Poison]:
    """All poisons, those of these names, or (``quick``) a few."""
    known = [*own(scratch), *adaptive(scratch), *shared(scratch)]
    wanted = names or (QUICK if quick else ())
    if unknown := set(wanted) - {poison.name for poison in known}:
        raise Stuck(f"there is no poison {', '.join(sorted(unknown))}")
    return [poison for poison in known if not wanted or poison.name in wanted]


def hostile(bench: Bench, names: Sequence[str] = ()) -> None:
    """All poisons, or those of ``names``, a batch at a time; some of them again as users of their own."""
    scratch = bench.folder / "scratch"
    poisons = chosen(scratch, names, quick=bench.quick)
    outcome = Outcome()
    with System(bench.folder / "home", nodes=2, slots=_BATCH) as system:
        trial = Trial(bench.folder, system, outcome)
        trial.begin()
        trial.batch(0, "innocent", innocent(scratch, _BATCH))
        left = _all_batches(trial, batches(poisons, _BATCH))
    count = len(poisons)
    apart = [name for name in APART if not names or name in names]
    if apart and not bench.quick:
        done, more = _as_users(outcome, apart)
        count, left = count + done, left + more
    judge(bench, outcome, count, left)


def _all_batches(trial: Trial, groups: Sequence[Sequence[Poison]], label: str = "") -> int:
    """One after the other; how many processes are left after the end."""
    try:
        for number, batch in enumerate(groups, start=1):
            heavy = batch[0].name in HEAVY
            trial.batch(number, label or f"{'heavy' if heavy else 'batch'} {number}", batch)
    except Stuck as problem:  # what was seen until then is told all the same
        trial.outcome.deaths.append(str(problem))
    return trial.finish()


def _as_users(outcome: Outcome, names: Sequence[str]) -> tuple[int, int]:
    """Poisons tried with ``--jobs-as tenant`` and processes left afterwards; 0 and 0 where that cannot be done."""
    try:
        with place() as there:
            options = ["--jobs-as=tenant"]
            with System(there.home, nodes=2, slots=_BATCH, options=options, python=there.python) as system:
                trial = Trial(there.folder, system, outcome, there.tag)
                trial.begin()
                poisons = own(there.folder / "scratch", names, there.python)
                return len(poisons), _all_batches(trial, [poisons], "as users")
    except NotHere as reason:
        outcome.skipped.append(f"--jobs-as tenant: {reason}")
        return 0, 0
