"""Tunnels lead from a node to supervisors of its own attempts, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from elastane.engines.local.agent_messages import EndAttempt
from elastane.engines.nodes.line import dial
from elastane.engines.nodes.messages import TO_NODE, Opened, Refused, TunnelHello
from elastane.engines.nodes.tunnels import Tunnels
from elastane.train.coordinator import wire
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.login_reader import LineReader, admit
from elastane.train.coordinator.relocation import THERE, port_there
from engines.nodes.head import Head, begin, story, true


async def asked(head: Head, session: str, port: int) -> bytes:
    """What the hub answers to whoever wants a tunnel."""
    lines, writer = await dial(head.join)
    writer.write(wire.encode_message(TunnelHello(session, port)))
    answer = await lines.next()
    writer.transport.abort()
    return answer


def test_only_ports_of_attempts_that_were_begun_there_are_reached(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        mine, other = await head.joined("mine"), await head.joined("other")
        await head.ask("mine", begin("j1.1", port))
        assert isinstance(TO_NODE.decode(await asked(head, mine.dialler.session, port)), Opened)
        for session, wanted in (
            (other.dialler.session, port),
            (mine.dialler.session, head.join.port),
            (mine.dialler.session, 22),
            ("", port),
            ("made up", port),
        ):
            assert isinstance(TO_NODE.decode(await asked(head, session, wanted)), Refused)
        await head.ask("mine", EndAttempt("j1.1"))
        assert isinstance(TO_NODE.decode(await asked(head, mine.dialler.session, port)), Refused)
        server.close()

    story(tmp_path, tell)


def test_a_supervisor_elsewhere_than_on_loopback_is_not_reached(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("mine")
        message = begin("j1.1")
        message.environment["ELASTANE_COORDINATOR"] = "169.254.169.254:80"
        await head.ask("mine", message)
        assert isinstance(TO_NODE.decode(await asked(head, node.dialler.session, 80)), Refused)

    story(tmp_path, tell)


def test_a_login_through_a_tunnel_proves_the_supervisors_own_port_and_bytes_arrive_whole(
    tmp_path: Path,
) -> None:
    """Both ways, a megabyte each; and the end of one side is the end of the other."""
    data = bytes(range(256)) * 4096

    async def tell(head: Head) -> None:
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            lines = LineReader(reader)
            assert await admit(lines, writer, lambda _: "token") == "nursery"
            writer.write(data)
            received = lines.rest()
            while len(received) < len(data):
                received += await reader.read(1 << 16)
            assert received == data
            assert await reader.read() == b""
            over.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        node = await head.joined("far")
        await head.ask("far", begin("j1.1", port))
        tunnels = Tunnels(head.join, lambda: node.dialler.session)
        told = await tunnels.listen("j1.1", port)
        assert await tunnels.listen("j1.1", port) == told  # harmless to repeat
        host, here = wire.address(told["ELASTANE_COORDINATOR"])
        assert port_there({THERE: told[THERE]}, here) == port

        def talk() -> bytes:
            line = connect(host, here, "nursery", "token", 60.0, known_as=port)
            line.line.sendall(data)
            received = b""
            while len(received) < len(data):
                received += line.line.recv(1 << 16)
            line.close()
            return received

        assert await asyncio.to_thread(talk) == data
        await over.wait()
        tunnels.close_all()
        server.close()

    story(tmp_path, tell)


def test_nobody_is_carried_while_the_node_has_no_line(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        tunnels = Tunnels(head.join, lambda: "")
        told = await tunnels.listen("j1.1", 4711)
        reader, writer = await asyncio.open_connection(*wire.address(told["ELASTANE_COORDINATOR"]))
        assert await reader.read() == b""
        writer.close()
        tunnels.close("j1.1")
        with contextlib.suppress(OSError):
            await asyncio.open_connection(*wire.address(told["ELASTANE_COORDINATOR"]))
            raise AssertionError

    story(tmp_path, tell)


def test_tunnels_of_a_node_that_is_lost_in_silence_end(tmp_path: Path) -> None:
    """Whoever holds the other end learns it, whatever the network says."""

    async def tell(head: Head) -> None:
        ends: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ends.append(b"begun")
            with contextlib.suppress(OSError):
                ends.append(await reader.read())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        node = await head.joined("far")
        await head.ask("far", begin("j1.1", port))
        lines, writer = await dial(head.join)
        writer.write(wire.encode_message(TunnelHello(node.dialler.session, port)))
        assert isinstance(TO_NODE.decode(await lines.next()), Opened)
        await true(lambda: ends == [b"begun"])
        hub_node = head.remote("far")
        assert hub_node.line is not None
        hub_node.line.silent = True
        hub_node.line.abort()
        await true(lambda: len(ends) == 2)
        writer.transport.abort()
        server.close()

    story(tmp_path, tell)
