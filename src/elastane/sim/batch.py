"""Many simulations: from the cache where possible, in parallel processes, interruptible without leftovers."""

from __future__ import annotations

import multiprocessing as mp
import queue
import signal
from collections.abc import Callable, Sequence
from multiprocessing.queues import Queue

from elastane.errors import ElastaneError
from elastane.sim.cache import load_result, save_result
from elastane.sim.result import RunResult
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec

OnProgress = Callable[[int, int, int], None]
"""Called with (index of the run, jobs finished, jobs in all)."""

_News = tuple[int, int, int]
_news: Queue[_News] | None = None


def simulate_all(
    specs: Sequence[RunSpec], processes: int, use_cache: bool, on_progress: OnProgress | None = None
) -> list[RunResult]:
    """Results in the order of ``specs``."""
    results: dict[int, RunResult] = {}
    for index, spec in enumerate(specs):
        found = load_result(spec) if use_cache else None
        if found is not None:
            results[index] = found
            if on_progress:
                on_progress(index, len(found.jobs), len(found.jobs))
    todo = [(index, spec) for index, spec in enumerate(specs) if index not in results]
    if min(processes, len(todo)) <= 1:
        for index, spec in todo:
            report = _reporter(index, on_progress)
            results[index] = simulate(spec, report)
            if use_cache:
                save_result(spec, results[index])
    else:
        results.update(_in_processes(todo, processes, use_cache, on_progress))
    return [results[index] for index in range(len(specs))]


def _reporter(index: int, on_progress: OnProgress | None) -> Callable[[int, int], None] | None:
    if on_progress is None:
        return None
    return lambda done, total: on_progress(index, done, total)


def _in_processes(
    todo: list[tuple[int, RunSpec]], processes: int, use_cache: bool, on_progress: OnProgress | None
) -> dict[int, RunResult]:
    context = mp.get_context("spawn")
    news: Queue[_News] = context.Queue()
    results: dict[int, RunResult] = {}
    with context.Pool(min(processes, len(todo)), _start_worker, (news,)) as pool:
        # Leaving the block, also by an interrupt, terminates the workers.
        pending = {index: pool.apply_async(_work, (index, spec)) for index, spec in todo}
        while pending:
            _pass_on(news, on_progress)
            for index in [index for index, answer in pending.items() if answer.ready()]:
                outcome = pending.pop(index).get()
                if isinstance(outcome, str):
                    raise ElastaneError(outcome)
                results[index] = outcome
                if use_cache:
                    save_result(dict(todo)[index], outcome)
    return results


def _pass_on(news: Queue[_News], on_progress: OnProgress | None) -> None:
    """Wait a moment for news and hand all of it on."""
    try:
        item = news.get(timeout=0.1)
        while True:
            if on_progress:
                on_progress(*item)
            item = news.get_nowait()
    except queue.Empty:
        return


def _start_worker(news: Queue[_News]) -> None:
    global _news
    _news = news
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent decides; a child must not print a trace of its own


def _work(index: int, spec: RunSpec) -> RunResult | str:
    """Errors of the user come back as text: exceptions of our own may not survive the way home."""

    def report(done: int, total: int) -> None:
        if _news is not None:
            _news.put((index, done, total))

    try:
        return simulate(spec, report)
    except ElastaneError as error:
        return str(error)
