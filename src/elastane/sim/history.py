"""Connects simulations to the pool of past jobs: records finished ones, and gives new ones a prior."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError
from elastane.models.history import Experience, Memory, Pool, Signature, load_pool
from elastane.models.history.files import KEY, from_plain, read_document, read_experiences
from elastane.sim.result import RunResult
from elastane.simcore.agents import Recall
from elastane.simcore.job_run import Arrival, JobRun


def signature_of(arrival: Arrival) -> Signature:
    """Makes a job's signature from what a trace has: application, batch and GPUs asked for, but no script."""
    return Signature(
        app=arrival.behaviour.app,
        tenant=arrival.tenant,
        batch=arrival.batch or 0,
        workers=arrival.request.workers,
        types=arrival.request.types,
    )


def identity(arrival: Arrival) -> str:
    """Returns an id that is the same for a job in every run of its workload, at any load, and for no other job.

    Names are no identity: every workload has its cifar10-12.  Copies that ``--load`` makes (``~2``) are one job.
    """
    name = arrival.id.partition("~")[0]
    parts = (name, arrival.submit_s, arrival.behaviour.app, arrival.request.workers, arrival.batch)
    return f"{name}@{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def experience_of(run: JobRun) -> Experience:
    """Records a simulated job as an experience; its total work only if it finished."""
    learner, finished = run.learner, run.finish_s is not None
    whole = run.done if finished else run.arrival.declared_work or 0.0
    return Experience(
        id=identity(run.arrival),
        signature=signature_of(run.arrival),
        timings=learner.timings() if learner else {},
        noise=learner.noise_path.points(whole) if learner else (),
        total_work=run.done if finished and run.done > 0.0 else None,
        restart_s=run.restart_s,
        outcome="finished" if finished else "unfinished",
        finished_at_s=run.finish_s if run.finish_s is not None else run.as_of_s,
    )


def recaller(path: str) -> tuple[Recall, str]:
    """Returns a function that predicts a job from the pool (never from itself), and a note for the report."""
    pool = pool_at(path)

    def recall(arrival: Arrival) -> Memory | None:
        return pool.recall(signature_of(arrival), exclude=identity(arrival))

    return recall, f"every job had the history of similar past jobs ({len(pool):,} in {path}), never its own"


def pool_at(path: str) -> Pool:
    """Reads the pool in a file, again only when the file has changed."""
    try:
        state = Path(path).stat()
    except OSError as error:
        raise ElastaneError(f"history {path}: {error.strerror}") from None
    return _pool_at(path, state.st_mtime_ns, state.st_size)


@cache
def _pool_at(path: str, changed_ns: int, size: int) -> Pool:  # noqa: ARG001
    return load_pool(Path(path))


def gathered(results: Iterable[RunResult], pool: Pool | None = None) -> Pool:
    """Collects the experiences of simulations into a pool, jobs in the order in which they ended."""
    pool = Pool() if pool is None else pool
    for result in results:
        for past in _in_order(job.experience for job in result.jobs):
            pool.add(past)
    return pool


def gathered_from_files(paths: Iterable[Path]) -> Pool:
    """Collects a pool from files that ``sim --json`` wrote, or from other pools."""
    pool = Pool()
    for path in paths:
        document = read_document(path)
        found = read_experiences(path, document) if KEY in document else _from_report(path, document)
        for past in found:
            pool.add(past)
    return pool


def _from_report(path: Path, document: Mapping[str, Any]) -> list[Experience]:
    policies = document.get("policies")
    if not isinstance(policies, dict):
        raise ElastaneError(f"{path} is neither a result of elastane sim --json nor a history")
    found: list[Experience] = []
    for name, entry in policies.items():
        rows = entry.get("per_job") if isinstance(entry, dict) else None
        known = [row["experience"] for row in rows or () if isinstance(row, dict) and row.get("experience")]
        try:
            found += _in_order(from_plain(plain) for plain in known)
        except ValueError as error:
            raise ElastaneError(f"{path}: policy {name}: {error}") from None
    if not found:
        raise ElastaneError(
            f"{path} tells nothing of its jobs; was it written by an older elastane sim --json?"
        )
    return found


def _in_order(experiences: Iterable[Experience | None]) -> list[Experience]:
    return sorted((past for past in experiences if past), key=lambda past: (past.finished_at_s, past.id))
