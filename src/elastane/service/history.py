"""Past jobs in the live system: what ended ones leave in the store, and what new ones are told of them.

The pool is read bit by bit between rounds, so that nobody waits for it at a start; until it is complete new jobs are
as unknown as they would be without it.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from elastane.jobs import JobSpec
from elastane.jobs.states import State
from elastane.models.history import Experience, Pool, Signature
from elastane.models.history.files import from_plain, to_plain
from elastane.service.control.active_job import LiveJob
from elastane.service.store import Store, Transaction
from elastane.service.store.rows import JobRow, number_of

log = logging.getLogger("elastane")

_AT_ONCE = 200
"""Experiences read between two rounds."""
_PATIENCE_S = 0.05
"""How long a round may be held up by looking for past jobs; the rest are compared after the next."""


class JobHistory:
    """The pool of one control plane."""

    def __init__(self, store: Store) -> None:
        self.pool = Pool()
        self.complete = False
        self._store = store
        self._place = 0
        self._gone: list[str] = []

    def tell(self, jobs: Iterable[LiveJob], accelerator: str) -> None:
        """Tell jobs of past ones like them, a few at a time; who has heard nothing yet is told when there is more."""
        if not self.complete:
            self.read_some()
            return
        end_s = time.monotonic() + _PATIENCE_S
        for job in jobs:
            if job.learned.memory is not None or job.told == self.pool.version:
                continue
            job.told = self.pool.version
            memory = self.pool.recall(signature_of(job.row, job.spec), exclude=job.id)
            if memory is not None:
                assert (
                    memory.expected is not None
                )  # the fit, which takes longest, here rather than in a decision
                job.recall(memory, accelerator)
            if time.monotonic() >= end_s:
                return

    def read_some(self, most: int = _AT_ONCE) -> None:
        """Read on; ``complete`` when there is no more."""
        found = self._store.past.experiences(self._place, most)
        for place, body in found:
            self._place = place
            try:
                self._gone += self.pool.add(from_plain(body))
            except ValueError as error:  # of a later version, say: it teaches this one nothing
                log.warning("past job %s is left out: %s", body.get("id", place), error)
        self.complete = len(found) < most

    def keep(self, t: Transaction, job: LiveJob, accelerator: str) -> None:
        """What a job that has ended leaves to others, if that is anything."""
        past = experience_of(job, accelerator)
        if past is None:
            return
        self._gone += self.pool.add(past)
        t.past.keep_experience(job.row.number, to_plain(past))
        gone, self._gone = self._gone, []
        t.past.remove_experiences(number for each in gone if (number := number_of(each)) is not None)


def experience_of(job: LiveJob, accelerator: str) -> Experience | None:
    """What is known of a job in the end; None if it taught nothing.  Times without a type are ``accelerator``'s."""
    row, learned = job.row, job.learned
    finished = row.state is State.SUCCEEDED and learned.done > 0.0
    timings = learned.timings(accelerator)
    if not finished and not timings:
        return None
    return Experience(
        id=row.id,
        signature=signature_of(row, job.spec),
        timings=timings,
        noise=learned.noise_points() if finished else (),
        total_work=learned.done if finished else None,
        restart_s=learned.restart.estimate().mean if learned.restart.pauses_s else None,
        outcome=row.state.value,
        finished_at_s=row.ended_s or row.last_change_s,
        shared=job.spec.share_history,
        limits=learned.limits,
    )


def signature_of(row: JobRow, spec: JobSpec) -> Signature:
    """What is known at submission.  A script is told by where it lies: with every edit it would be another."""
    program, arguments = split_command(spec.command)
    return Signature(
        app=row.name,
        tenant=row.tenant,
        script=_digest([str(PurePosixPath(row.directory, program[-1])), *program]) if program else "",
        config=_digest([*arguments, *(f"{name}={value}" for name, value in sorted(spec.env.items()))]),
        batch=spec.batch.size if spec.batch else 0,
        workers=spec.workers.min,
        types=tuple(spec.accelerators),
    )


def split_command(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """(what runs, its arguments): up to the script or module, else the first word.

    >>> split_command(["python", "-u", "train.py", "--lr", "0.1"])
    (['python', '-u', 'train.py'], ['--lr', '0.1'])
    """
    for place, word in enumerate(command):
        if word.endswith((".py", ".sh")) or (place and command[place - 1] == "-m"):
            return command[: place + 1], command[place + 1 :]
    return command[:1], command[1:]


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]
