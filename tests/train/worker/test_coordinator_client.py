"""A worker's line to its coordinator loses no news, and tells a new coordinator how far the worker has come."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from queue import SimpleQueue

from elastane.train.coordinator.login_reader import LineReader, admit
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.messages import (
    FROM_WORKER,
    Aborted,
    Cancelled,
    Done,
    Entered,
    FromWorker,
    Planned,
    Ready,
    WorkerBeat,
    WorkerHello,
)
from elastane.train.coordinator.wire import encode_message
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase
from elastane.train.transport_choice import MemberDevice
from elastane.train.worker.coordinator_client import CoordinatorClient, PlanHandlers
from elastane.train.worker.worker_account import WorkerAccount

TOKEN = "of this job"
PATIENCE_S = 60.0
PLAN = Plan(3, Kind.GROW, ("w1", "w2"), ("w2",))


class Coordinator:
    """Admits one worker, says three things in the same moment, and keeps what it hears."""

    def __init__(self) -> None:
        self.heard = SimpleQueue[FromWorker]()
        self.port = SimpleQueue[int]()
        threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True).start()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port.put(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = LineReader(reader)
        if await admit(lines, writer, lambda _: TOKEN) is None:
            return
        writer.write(b"".join(map(encode_message, (Planned(PLAN), Cancelled(3), Aborted(2)))))
        with contextlib.suppress(ConnectionError):
            while line := await lines.next():
                self.heard.put(FROM_WORKER.decode(line))


def test_a_client_calls_nobody_before_it_knows_whom_to_tell_and_then_loses_no_news() -> None:
    coordinator = Coordinator()
    port = coordinator.port.get(timeout=PATIENCE_S)
    before = set(threading.enumerate())
    client = CoordinatorClient("w2", ("127.0.0.1", port), TOKEN, "n1")
    assert set(threading.enumerate()) <= before
    client.doing(Activity.COMPUTING, 7)
    client.send(Done(8))
    told = SimpleQueue[object]()
    client.start(PlanHandlers(told.put, lambda generation: told.put(-generation), told.put))
    assert [told.get(timeout=PATIENCE_S) for _ in range(3)] == [PLAN, -3, 2]
    heard = [coordinator.heard.get(timeout=PATIENCE_S) for _ in range(3)]
    hello, *others = heard
    assert isinstance(hello, WorkerHello)
    assert (hello.worker, hello.node, hello.phase) == ("w2", "n1", Phase.WARMING)
    assert Done(8) in others  # what was said before there was a line
    assert any(isinstance(each, WorkerBeat) and each.step == 7 for each in others)


def test_a_new_coordinator_hears_how_far_a_worker_has_come() -> None:
    device = MemberDevice("10.0.0.1")
    account = WorkerAccount().ready(Ready({"torch": "2"}, "h:1", device)).entered(Entered(4, 10))
    account = account.stopped_at(11).finished()
    assert account.hello("w1", "n1", "h") == WorkerHello(
        "w1", "n1", "h", Phase.MEMBER, 4, 11, True, {"torch": "2"}, "h:1", device
    )


def test_a_worker_is_a_member_once_it_has_entered() -> None:
    client = CoordinatorClient("w1", ("127.0.0.1", 1), TOKEN, "n1")
    client.ready(Ready({}, ""))
    assert not client.member
    client.entered(Entered(1, 0))
    assert client.member
