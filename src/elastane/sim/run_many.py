"""Runs many simulations: from the cache where possible, in parallel processes that an interrupt ends cleanly."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from elastane.errors import ElastaneError
from elastane.kit.tagged_json import line_of
from elastane.sim.cache import load_result, save_result
from elastane.sim.result import RunResult
from elastane.sim.run import prepare, simulate
from elastane.sim.serialize import result_from_plain, spec_to_plain
from elastane.sim.spec import RunSpec
from elastane.sim.worker_messages import FROM_WORKER, FromWorker, Mistake, Progress, Result, Simulate
from elastane.simcore.physics import Physics

OnProgress = Callable[[int, int, int], None]
"""Called with (index of the run, jobs finished, jobs in all)."""

OnResult = Callable[[int, RunResult], None]
"""Called with the index of a run and its result."""

_Todo = list[tuple[int, RunSpec]]


def simulate_all(
    specs: Sequence[RunSpec], processes: int, use_cache: bool, on_progress: OnProgress | None = None
) -> list[RunResult]:
    """Simulates all specs and returns their results in the same order."""
    results: dict[int, RunResult] = {}
    simulate_each(specs, processes, use_cache, results.__setitem__, on_progress)
    return [results[index] for index in range(len(specs))]


def simulate_each(
    specs: Sequence[RunSpec],
    processes: int,
    use_cache: bool,
    on_result: OnResult,
    on_progress: OnProgress | None = None,
) -> None:
    """Simulates all specs and hands over each result as soon as it exists, in any order, so that none is kept."""
    report = on_progress or (lambda *_: None)
    todo: _Todo = []
    for index, spec in enumerate(specs):
        found = load_result(spec) if use_cache else None
        if found is None:
            todo.append((index, spec))
            continue
        report(index, len(found.jobs), len(found.jobs))
        on_result(index, found)
    check_inputs([spec for _, spec in todo])

    def keep(index: int, result: RunResult) -> None:
        on_result(index, result)
        if use_cache:
            save_result(specs[index], result)

    if min(processes, len(todo)) <= 1:
        for index, spec in todo:
            keep(index, simulate(spec, lambda done, total, i=index: report(i, done, total)))  # type: ignore[misc]
    else:
        _in_processes(todo, processes, report, keep)


def check_inputs(specs: Sequence[RunSpec]) -> None:
    """Reads all inputs, so that a user's mistakes are found before any simulation starts; equal ones only once."""
    seen = set()
    for spec in specs:
        inputs = replace(spec, policy="", physics=Physics())
        if inputs not in seen:
            seen.add(inputs)
            prepare(spec)


@dataclass(frozen=True, slots=True)
class _Died:
    """A worker's output has ended; what it wrote to standard error."""

    words: str


class _Worker:
    """A process that simulates one spec after another; its messages arrive in a shared queue."""

    def __init__(self, news: _News) -> None:
        self.index = -1
        # Its own session, so that an interrupt at the terminal reaches only the parent, which ends the workers.
        # One thread for linear algebra: the processes themselves are the parallelism.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "elastane.sim.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._news = news
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        for line in self.process.stdout:
            self._news.put((self, FROM_WORKER.read(line)))
        self._news.put((self, _Died(self.process.stderr.read())))

    def give(self, index: int, spec: RunSpec) -> None:
        """Sends the worker the spec to simulate next."""
        assert self.process.stdin is not None
        self.index = index
        self.process.stdin.write(line_of(Simulate(spec_to_plain(spec))))
        self.process.stdin.flush()

    def end(self) -> None:
        """Kills the process and waits until it is gone."""
        self.process.kill()
        self.process.wait()


_News = queue.Queue[tuple[_Worker, FromWorker | _Died]]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Defers an interrupt: a process that has started but is not yet in the list would not be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts reach only the main thread
        return
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if arrived:
        raise KeyboardInterrupt


def _in_processes(todo: _Todo, processes: int, report: OnProgress, keep: OnResult) -> None:
    news: _News = queue.Queue()
    waiting = list(reversed(todo))
    workers: list[_Worker] = []
    try:
        for _ in range(min(processes, len(todo))):
            with _uninterrupted():
                workers.append(_Worker(news))
            workers[-1].give(*waiting.pop())
        left = len(todo)
        while left:
            worker, message = news.get()
            match message:
                case Progress(done, total):
                    report(worker.index, done, total)
                case Result(result):
                    keep(worker.index, result_from_plain(result))
                    left -= 1
                    if waiting:
                        worker.give(*waiting.pop())
                case Mistake(error):
                    raise ElastaneError(error)
                case _Died(words):
                    raise RuntimeError(f"a simulation process ended unexpectedly:\n{words}")
    finally:
        for worker in workers:
            worker.end()
