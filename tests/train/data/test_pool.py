"""Loader processes: they do what is wanted, look like nobody else, and never outlive their parent."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from elastane.train.data import pool as pool_module
from elastane.train.data.order import Order
from elastane.train.data.pool import LoaderTraceback, Pool, Span
from elastane.train.data.reader import Reader
from elastane.train.errors import TrainError

PATIENCE_S = 30.0


def span(start: int, count: int = 1) -> Span:
    return Span(0, start, count)


def pool_of(dataset: Any, processes: int = 2) -> Pool:
    return Pool(Reader(dataset, name="train"), processes, Order(len(dataset)))


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = pool_of([10 * i for i in range(100)])
    yield made
    made.close()


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def in_fork(act: Callable[[Connection], None]) -> tuple[int, Connection]:
    """Run ``act`` in a forked process, as workers are; it may talk back."""
    ours, theirs = multiprocessing.Pipe()
    pid = os.fork()
    if pid == 0:
        _act_and_exit(act, theirs)
    theirs.close()
    return pid, ours


def _act_and_exit(act: Callable[[Connection], None], link: Connection) -> NoReturn:
    try:
        act(link)
    finally:
        os._exit(0)


def heard(link: Connection) -> Any:
    assert link.poll(PATIENCE_S), "nothing was said"
    return link.recv()


def started_and_kept(link: Connection) -> None:
    """A worker with loader processes that waits for the end."""
    pool = pool_of(list(range(10)))
    pool.fetch(span(0))
    link.send(pool.pids)
    idle(link)


def idle(link: Connection) -> None:
    """Wait to be killed; not for ever, should the test fail first."""
    link.poll(2 * PATIENCE_S)


def all_ended(pids: tuple[int, ...]) -> bool:
    """Wait for the end of processes that may be orphans."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = wait([descriptor], PATIENCE_S)
        os.close(descriptor)
        if not ended:
            return False
    return True


def test_no_process_is_started_before_it_is_needed_and_none_is_left_after_close(pool: Pool) -> None:
    assert pool.pids == ()
    assert pool.fetch(span(3, 2)).tolist() == [30, 40]
    pids = pool.pids
    assert len(pids) == 2
    pool.close()
    assert not any(exists(pid) for pid in pids)
    pool.close()


def test_a_closed_pool_starts_again_when_used(pool: Pool) -> None:
    pool.expect([span(1), span(2)])
    pool.close()
    assert pool.fetch(span(2)).tolist() == [20]


def test_a_forgotten_pool_ends_its_processes() -> None:
    pool = pool_of(list(range(10)))
    pool.fetch(span(1))
    pids = pool.pids
    del pool
    gc.collect()
    assert not any(exists(pid) for pid in pids)


def test_processes_end_when_their_parent_is_killed() -> None:
    parent, link = in_fork(started_and_kept)
    pids = heard(link)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert all_ended(pids)


def test_they_end_even_if_the_parent_had_other_children() -> None:
    def act(link: Connection) -> None:
        pool = pool_of(list(range(10)))
        pool.fetch(span(0))
        sibling = os.fork()
        if sibling == 0:
            idle(link)
            os._exit(0)
        link.send((sibling, pool.pids))
        idle(link)

    parent, link = in_fork(act)
    sibling, pids = heard(link)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    ended = all_ended(pids)
    alive = exists(sibling)
    os.kill(sibling, signal.SIGKILL)
    assert ended
    assert alive


def test_two_pools_of_one_parent_do_not_keep_each_other_alive() -> None:
    def act(link: Connection) -> None:
        pools = [pool_of(list(range(10)), 1) for _ in range(2)]
        for pool in pools:
            pool.fetch(span(0))
        pools[0].close()
        link.send(pools[1].pids)
        idle(link)

    parent, link = in_fork(act)
    pids = heard(link)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert all_ended(pids)


@pytest.mark.slow
def test_a_script_that_ends_without_closing_leaves_nothing_behind() -> None:
    script = """
        from elastane.train.data import source_of
        source = source_of(list(range(10)), num_workers=2)
        source.fetch(0, 3)
        print(*source._pool.pids)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stderr == ""
    pids = tuple(int(pid) for pid in done.stdout.split())
    assert len(pids) == 2
    assert all_ended(pids)


def test_a_pool_inherited_through_a_fork_works_on_both_sides(pool: Pool) -> None:
    pool.expect([span(1), span(2)])
    pids = pool.pids

    def act(link: Connection) -> None:
        found = pool.fetch(span(2)).tolist()
        link.send((found, pool.pids))
        pool.close()

    child, link = in_fork(act)
    found, others = heard(link)
    os.waitpid(child, 0)
    assert found == [20]
    assert not set(others) & set(pids)
    assert all_ended(others)
    assert pool.pids == pids
    assert [pool.fetch(span(i)).tolist() for i in (1, 2)] == [[10], [20]]


def test_connections_of_the_worker_end_with_the_worker_alone(pool: Pool) -> None:
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    pool.fetch(span(0))
    ours.close()
    os.close(writing)
    theirs.settimeout(PATIENCE_S)
    assert theirs.recv(1) == b""
    assert wait([reading], PATIENCE_S)
    assert os.read(reading, 1) == b""
    theirs.close()
    os.close(reading)


def test_open_files_of_the_data_set_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(20)))

    class File:
        def __init__(self) -> None:
            self.file = path.open("rb")

        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> int:
            return os.pread(self.file.fileno(), 1, index)[0]

    pool = pool_of(File())
    assert pool.fetch(span(5, 3)).tolist() == [5, 6, 7]
    pool.close()


def test_signals_for_the_worker_do_not_touch_its_loader_processes(pool: Pool) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    try:
        pool.fetch(span(0))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            for pid in pool.pids:
                os.kill(pid, number)
        assert pool.fetch(span(0)).tolist() == [0]
        assert len(pool.pids) == 2
        assert received == []
    finally:
        signal.signal(signal.SIGUSR1, before)


class Gated:
    """Says when a sample is begun, and finishes it when told."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.begun = context.Semaphore(0)
        self.gate = context.Semaphore(0)
        self.read = context.Value("i", 0)

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> int:
        self.begun.release()
        assert self.gate.acquire(timeout=PATIENCE_S)
        with self.read.get_lock():
            self.read.value += 1
        return index


def test_what_is_expected_is_read_before_it_is_asked_for() -> None:
    dataset = Gated()
    pool = pool_of(dataset)
    pool.expect([span(0), span(1)])
    assert dataset.begun.acquire(timeout=PATIENCE_S)
    assert dataset.begun.acquire(timeout=PATIENCE_S)
    dataset.gate.release()
    dataset.gate.release()
    assert [pool.fetch(span(i)).tolist() for i in (0, 1)] == [[0], [1]]
    assert dataset.read.value == 2
    pool.close()


def test_a_dropped_expectation_is_given_up_between_two_samples() -> None:
    dataset = Gated()
    pool = pool_of(dataset, 1)
    pool.expect([span(0, 10), span(10, 10)])
    assert dataset.begun.acquire(timeout=PATIENCE_S)
    pool.expect([span(50)])
    for _ in range(30):
        dataset.gate.release()
    assert pool.fetch(span(50)).tolist() == [50]
    assert dataset.read.value == 2  # the sample being read, and the one wanted instead
    pool.close()


def test_reading_ahead_is_bounded(pool: Pool) -> None:
    pool.expect([span(i) for i in range(50)])
    for i in range(50):
        assert pool.fetch(span(i)).tolist() == [10 * i]
        assert len(pool._coming) + len(pool._ready) <= 4


def test_what_was_fetched_is_not_read_ahead_again(pool: Pool) -> None:
    pool.expect([span(1), span(2)])
    pool.fetch(span(2))
    pool.fetch(span(1))
    assert not pool._coming
    assert not pool._ready


def test_dropped_batches_are_not_kept(pool: Pool) -> None:
    pool.expect([span(i) for i in range(4)])
    pool.fetch(span(99))
    pool.expect([span(7)])
    pool.fetch(span(98))
    assert set(pool._coming) | set(pool._ready) == {span(7)}


def test_a_process_busy_for_ever_is_killed_after_a_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "GRACE_S", 0.05)
    dataset = Gated()
    pool = pool_of(dataset, 1)
    pool.expect([span(0)])
    assert dataset.begun.acquire(timeout=PATIENCE_S)
    pids = pool.pids
    pool.close()
    assert not any(exists(pid) for pid in pids)


class Deadly:
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == 6:
            sys.exit(3)
        return (lambda: index) if index == 7 else index


@pytest.mark.parametrize(("index", "words"), [(5, "was killed by signal 9"), (6, "exited with status 1")])
def test_a_process_that_dies_is_reported_and_the_pool_can_be_used_again(index: int, words: str) -> None:
    pool = pool_of(Deadly())
    pool.fetch(span(1))
    pids = pool.pids
    with pytest.raises(TrainError, match=f"loader 'train': a loader process {words}"):
        pool.fetch(span(index))
    assert not any(exists(pid) for pid in pids)
    assert pool.fetch(span(1)).tolist() == [1]
    pool.close()


def test_a_process_found_dead_when_work_is_handed_out_is_reported(pool: Pool) -> None:
    pool.fetch(span(1))
    pid = pool.pids[0]
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(TrainError, match="was killed by signal 9"):
        pool.expect([span(2), span(3)])
    assert pool.pids == ()


def test_a_batch_that_cannot_be_sent_is_explained() -> None:
    pool = Pool(Reader(Deadly(), list, name="train"), 1, Order(10))
    with pytest.raises(
        TrainError, match=r"loader 'train': a batch cannot be sent by a loader process: .*lambda"
    ):
        pool.fetch(span(7))
    pool.close()


def test_the_traceback_of_the_loader_process_is_in_the_log() -> None:
    class Broken(Deadly):
        def __getitem__(self, index: int) -> Any:
            return self.deep_inside()

        def deep_inside(self) -> Any:
            raise OSError("disk gone")

    pool = pool_of(Broken())
    with pytest.raises(TrainError, match="at index 4: OSError: disk gone") as caught:
        pool.fetch(span(4))
    assert isinstance(caught.value.__cause__, LoaderTraceback)
    assert "deep_inside" in str(caught.value.__cause__)
    pool.close()


def test_spans_with_very_many_indices_do_not_block(pool: Pool) -> None:
    size = 200_000  # 1.6 MB of indices, far more than a socket holds
    large = Pool(Reader(np.arange(size), len), 1, Order(size))
    large.expect([Span(0, 0, size), Span(0, 1, size - 1)])
    assert large.fetch(Span(0, 0, size)) == size
    assert large.fetch(Span(0, 1, size - 1)) == size - 1
    large.close()
