"""Whoever does not know the secret is sent away soon, and costs next to nothing."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from pathlib import Path

import pytest

from elastane.engines.nodes import hub, line
from elastane.engines.nodes.joining import client_context
from elastane.train.coordinator.login_reader import BUFFER_BYTES, STRANGER_S
from engines.nodes.head import Head, story, true

GIGABYTE = 1 << 30
SLACK_S = 60.0
"""For a machine that has other things to do; what is measured is that it ends at all."""


async def flood(writer: asyncio.StreamWriter, letters: int) -> int:
    """Send one endless line, as far as somebody takes it."""
    block, sent = b"x" * BUFFER_BYTES, 0
    with contextlib.suppress(OSError):
        while sent < letters:
            writer.write(block)
            await writer.drain()
            sent += len(block)
    return sent


async def ended(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(OSError):
        async with asyncio.timeout(SLACK_S):
            return await reader.read()
    return b""


@pytest.mark.parametrize("tls", [False, True])
def test_a_first_line_without_an_end_is_refused_with_bounded_memory(tmp_path: Path, tls: bool) -> None:
    async def tell(head: Head) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        context = client_context() if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", head.join.port, ssl=context)
        sent = await flood(writer, GIGABYTE)
        await ended(reader)
        writer.transport.abort()
        assert sent < GIGABYTE / 8
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # in KiB
        await head.joined("far")

    story(tmp_path, tell)


@pytest.mark.parametrize("tls", [False, True])
def test_a_silent_stranger_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool) -> None:
    assert hub.HANDSHAKE_S + line.LOGIN_S <= STRANGER_S == 5.0
    monkeypatch.setattr(hub, "HANDSHAKE_S", 0.3)
    monkeypatch.setattr(line, "LOGIN_S", 0.3)

    async def tell(head: Head) -> None:
        context = client_context() if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", head.join.port, ssl=context)
        began_s = time.monotonic()
        assert await ended(reader) == b""
        assert time.monotonic() - began_s < SLACK_S
        writer.transport.abort()

    story(tmp_path, tell)


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"type":"login","role":"client","nonce":"1"}\n',
        b'{"type":"login","role":"node","nonce":"1"}\n{"type":"proof","proof":"1"}\n',
        b'{"type":"hello","protocol":1,"node":"far","incarnation":"x"}\n' * 2,
        b"[" * 3000 + b"\n",
    ],
)
def test_nonsense_and_wrong_proofs_end_the_line(tmp_path: Path, words: bytes) -> None:
    async def tell(head: Head) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", head.join.port, ssl=client_context())
        writer.write(words)
        writer.write(b'{"type":"hello","protocol":1,"node":"far","incarnation":"x"}\n')
        answer = await ended(reader)
        assert b"welcome" not in answer
        writer.transport.abort()
        assert not head.layout.joined("far").exists()

    story(tmp_path, tell)


def test_a_node_that_talks_nonsense_ends_its_own_line_only(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        await head.joined("good")
        for words in (
            b'{"type":"hello","protocol":1,"node":"../x","incarnation":"x"}\n',
            b"nonsense\n",
            b"{}\n",
        ):
            lines, writer = await line.dial(head.join)
            writer.write(words)
            assert await lines.next() == b""
            writer.transport.abort()
        node = head.node("far")
        lines, writer = await line.dial(head.join)
        own = line.NodeLine(lines, writer)
        own.send(node.shop.machine)
        await true(lambda: head.present("far"))
        writer.write(
            b'{"type":"answer","number":77,"body":{"type":"?"}}\n{"type":"ended","attempt":"../../x"}\n'
        )
        writer.write(b'{"type":"answer","number":"x","body":3}\nnonsense\n')
        writer.write(b'{"type":"farewell"}\n')  # it is still heard
        await true(lambda: not head.layout.joined("far").exists())
        own.abort()
        assert head.present("good")

    story(tmp_path, tell)
