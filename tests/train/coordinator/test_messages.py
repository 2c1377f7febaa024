"""The lines between processes: what is said arrives as it was said; what makes no sense breaks nobody."""

from __future__ import annotations

import asyncio
import json
import math
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.engines.local.agent_messages import FROM_AGENT, TO_AGENT, AgentStatus, BeginForkServer
from elastane.train.coordinator import messages, wire
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.login_reader import LineReader, Tokens, log_in
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.messages import (
    FROM_CLIENT,
    FROM_FORK_SERVER,
    FROM_WORKER,
    TO_CLIENT,
    TO_FORK_SERVER,
    TO_WORKER,
    Exited,
    Failed,
    Planned,
    Ready,
    Resize,
    SendSignal,
    Spawn,
    StopJob,
    StopTraining,
    WorkerBeat,
    WorkerHello,
)
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.coordinator.script_runner import Order
from elastane.train.coordinator.server import CoordinationServer
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.wire import BadMessageError, Line, Message, UnknownTypeError, encode_message
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.exit_cause import ExitKind
from train.coordinator.hosts import FakeHost

LINES = (FROM_WORKER, TO_WORKER, FROM_FORK_SERVER, TO_FORK_SERVER, FROM_CLIENT, TO_CLIENT, TO_AGENT, FROM_AGENT)
TYPES = sorted({name for line in LINES for name in line._types})
FIELDS = sorted(
    {name for line in LINES for kind in line._types.values() for name in kind.__struct_encode_fields__}
)
PLAN = Plan(3, Kind.GROW, ("w1", "w2"), ("w2",), (), {"w2": "w1"}, {"w2": "h:1"}, True, None, 2)
ORDER = Order("w1", "s.py", ("--x",), {"NAME": "not \udce9 Unicode"}, "log", "/", program=("p",))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(10**300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
near_messages = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)}, optional=dict.fromkeys(FIELDS, json_values)
)
anything = st.one_of(
    st.binary(max_size=200),
    json_values.map(lambda value: json.dumps(value).encode()),
    near_messages.map(lambda value: json.dumps(value).encode()),
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (TO_WORKER, Planned(PLAN)),
        (TO_WORKER, StopTraining("because", failed=True)),
        (TO_FORK_SERVER, Spawn(ORDER)),
        (TO_FORK_SERVER, SendSignal("w1")),
        (FROM_FORK_SERVER, Exited("w1", -9, out_of_memory=True)),
        (FROM_WORKER, Ready({"settings": {"clip": math.inf}, "parameters": [["a", [1], "f"]]}, "")),
        (FROM_WORKER, Failed(3, None, "why")),
        (FROM_CLIENT, Resize(3, ("w1",))),
        (TO_AGENT, BeginForkServer("j1.1", {"A": "b"}, "log", cold=True)),
    ],
)
def test_what_is_said_arrives(line: Line[Message], message: Message) -> None:
    assert line.decode(encode_message(message)) == message


def test_lines_are_those_of_earlier_versions() -> None:
    """A supervisor is upgraded under running jobs: their workers and fork servers say and expect exactly this."""
    assert json.loads(encode_message(Planned(PLAN))) == {"type": "plan", "plan": PLAN.to_json()}
    assert json.loads(encode_message(Spawn(ORDER))) == {
        "type": "spawn",
        "order": json.loads(json.dumps(asdict(ORDER))),
    }
    assert json.loads(encode_message(Failed(3, None, "x"))) == {
        "type": "failed",
        "generation": 3,
        "applied": None,
        "why": "x",
    }
    hello = {"type": "hello", "worker": "w1", "node": "n", "host": "h", "phase": "warming", "generation": 0}
    assert FROM_WORKER.read({**hello, "applied": -1}) == WorkerHello("w1", "n", "h")
    beat = {"type": "beat", "step": 3, "doing": "waiting"}
    assert FROM_WORKER.read(beat) == WorkerBeat(3, Activity.WAITING)
    assert FROM_FORK_SERVER.read({"type": "exited", "worker": "w1", "code": 1}) == Exited("w1", 1)
    began = {"type": "nursery", "attempt": "j1.1", "environment": {}, "log": "log", "cold": True}
    assert json.loads(encode_message(BeginForkServer("j1.1", {}, "log", cold=True))) == began
    status = {"type": "status", "nurseries": {"j1.1": 7}}
    assert json.loads(encode_message(AgentStatus({"j1.1": 7}))) == status
    assert FROM_AGENT.read(status) == AgentStatus({"j1.1": 7})
    assert FROM_CLIENT.read({"type": "stop", "cause": "suspended: x"}) == StopJob("suspended: x")
    assert StopJob("suspended: x").why.kind is ExitKind.CANCELLED, "only its kind says that it is to go on"


def test_fields_of_a_later_version_are_ignored_and_its_types_told_from_nonsense() -> None:
    assert TO_FORK_SERVER.decode(b'{"type":"stop","softly":true}') == messages.StopForkServer()
    with pytest.raises(UnknownTypeError, match="no such request: dance"):
        FROM_CLIENT.decode(b'{"type":"dance"}')


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "what a worker sent is not a message"),
        (b'["beat"]', "what a worker sent is not a message"),
        (b"[" * 100_000, "what a worker sent is not a message"),
        (b'{"type":"beat","step":1}', "beat of a worker: Object missing required field `doing`"),
        (b'{"type":"beat","step":-1,"doing":"waiting"}', "Expected `int` >= 0"),
        (b'{"type":"beat","step":1e400,"doing":"waiting"}', "Expected `int`"),
        (b'{"type":"beat","step":1,"doing":"dancing"}', "Invalid enum value 'dancing'"),
        (b'{"type":"blob","generation":1,"rank":' + b"9" * 400 + b',"data":""}', "Expected `int` <="),
    ],
)
def test_nonsense_is_refused_with_its_reason(line: bytes, words: str) -> None:
    with pytest.raises(BadMessageError, match=words):
        FROM_WORKER.decode(line)


@given(anything)
def test_no_line_breaks_a_decoder(line: bytes) -> None:
    for decoder in LINES:
        try:
            message = decoder.decode(line)
        except ValueError:
            continue
        assert decoder.decode(encode_message(message)) == message or "NaN" in line.decode(errors="replace")


class Visitor:
    """Somebody who has logged in to a real server, in a role."""

    def __init__(self, folder: Path) -> None:
        self.tokens, self.host = Tokens(), FakeHost()
        self.coordinator = Coordinator(Settings())
        log = PlanLog(folder / "plans.jsonl")
        self.server = CoordinationServer(self.coordinator, log, self.tokens, self.host)

    async def says(self, role: str, *lines: bytes) -> bytes:
        """Until the other side has heard it all; what it answered."""
        token = self.tokens.clients if role == "client" else self.tokens.workers
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await log_in(LineReader(reader), writer, role, token)
        writer.write(b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines))
        writer.write_eof()
        async with asyncio.timeout(60):
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    async def tell(self, said: list[tuple[str, list[bytes]]]) -> list[bytes]:
        self.port = await self.server.open("127.0.0.1")
        try:
            self.server.perform(self.coordinator.start(self.server.now_s))
            return [await self.says(role, *lines) for role, lines in said]
        finally:
            self.server._fork_servers.ready.clear()
            self.server._fork_servers.returning.clear()
            await self.server.close()


HELLOS = {
    "client": [],
    "worker": [b'{"type":"hello","worker":"w1"}'],
    "nursery": [b'{"type":"hello","node":"local"}'],
}
visits = st.tuples(st.sampled_from(sorted(HELLOS)), st.lists(anything, min_size=1, max_size=5))


@given(st.lists(visits, min_size=1, max_size=6))
def test_nothing_that_is_said_to_a_supervisor_breaks_it(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, list[bytes]]]
) -> None:
    visitor = Visitor(tmp_path_factory.mktemp("run"))
    caught: list[dict[str, Any]] = []

    async def main() -> bytes:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context))
        hostile = [(role, [*HELLOS[role], *lines]) for role, lines in said]
        return (await visitor.tell([*hostile, ("client", [b'{"type":"status"}'])]))[-1]

    assert isinstance(TO_CLIENT.decode(asyncio.run(main())), messages.Status)
    assert caught == []


def test_who_is_not_understood_is_told_or_named(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path)
    client = [b'{"type":"dance"}', b'{"type":"resize","workers":"many"}', b'{"type":"status"}']
    worker = [*HELLOS["worker"], b'{"type":"dance"}', b'{"type":"beat","step":1,"doing":"waiting"}', b"[]"]
    answers, _ = asyncio.run(visitor.tell([("client", client), ("worker", worker)]))
    told = [TO_CLIENT.decode(line) for line in answers.splitlines()]
    assert told == [  # a type may be another version's; values that nobody sends end the line
        messages.NotUnderstood("no such request: dance"),
        messages.NotUnderstood("resize of a client: Expected `int`, got `str` - at `$.workers`"),
    ]
    assert visitor.coordinator.workers["w1"].beat.doing is Activity.WAITING, "the line went on after that"
    texts = [event["text"] for event in visitor.host.events if event["type"] == "warned"]
    assert texts[0].endswith(
        "was not understood (resize of a client: Expected `int`, got `str` - at `$.workers`)"
    )
    assert texts[1] == "a message of worker w1 was not understood (no such request: dance)"


def test_a_worker_passes_over_what_it_does_not_understand(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()

    def lines() -> Iterator[bytes]:
        yield b'{"type":"dance"}'
        yield b"\xff" + os.urandom(20).replace(b"\n", b"")
        yield b'{"type":"go","generation":2}'

    with ours, theirs:
        theirs.sendall(b"\n".join(lines()) + b"\n")
        theirs.shutdown(socket.SHUT_WR)
        connection = object.__new__(wire.Connection)
        connection._socket, connection._lock = ours, threading.Lock()
        assert list(connection.messages(TO_WORKER)) == [messages.Go(2)]
    assert capfd.readouterr().err.count("elastane: passed over: ") == 2


def test_all_types_are_frozen_and_every_line_has_one_type_for_each_name() -> None:
    for line in LINES:
        for name, kind in line._types.items():
            assert kind.__struct_config__.frozen, name
            assert isinstance(kind.__struct_config__.tag, str)
            assert msgspec.inspect.type_info(kind)  # every annotation is one that can be read
