"""A signal is heard while a worker waits for others that do not come."""

from __future__ import annotations

import signal
import sys
import threading

import torch

from elastane.train.worker.group import Group


class Table:
    """Addresses of members that are threads of one process."""

    def __init__(self) -> None:
        self._there: dict[int, bytes] = {}
        self._news = threading.Condition()

    def put(self, rank: int, data: bytes) -> None:
        with self._news:
            self._there[rank] = data
            self._news.notify_all()

    def get(self, rank: int, timeout_s: float) -> bytes:
        with self._news:
            assert self._news.wait_for(lambda: rank in self._there, timeout_s)
            return self._there[rank]


def test_a_signal_is_heard_in_the_middle_of_a_wait_for_others() -> None:
    table, heard = Table(), threading.Event()
    main = threading.main_thread().ident
    assert main == threading.get_ident()
    in_time: list[bool] = []

    def waits() -> bool:
        frame = sys._current_frames()[main]
        return frame.f_code.co_name == "finish" and frame.f_code.co_filename.endswith("group.py")

    def other() -> None:
        group = Group(1, 2, table, host="127.0.0.1")
        while not waits():
            heard.wait(0.001)
        signal.pthread_kill(main, signal.SIGTERM)
        in_time.append(heard.wait(60.0))
        group.all_reduce(torch.ones(3))

    before = signal.signal(signal.SIGTERM, lambda *_: heard.set())
    try:
        thread = threading.Thread(target=other)
        thread.start()
        mine = torch.ones(3)
        Group(0, 2, table, host="127.0.0.1").all_reduce(mine)
        thread.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert in_time == [True]
    assert mine.tolist() == [2.0, 2.0, 2.0]
