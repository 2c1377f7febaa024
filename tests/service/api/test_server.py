"""The server: where it may listen, what it says when it cannot, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from elastane.errors import ElastaneError
from elastane.service.api import server
from elastane.service.api.app import create_app
from elastane.service.api.server import check_exposure, serve
from service.api.house import JOB, House

OWNER = {"Authorization": "Bearer t-owner"}


def serving(house: House, story: Callable[[httpx.AsyncClient], Awaitable[object]]) -> None:
    """Run a story against a real server on a free port."""

    async def run() -> None:
        app = create_app(house.service, house.accounts, house.settings)
        async with serve(app, "127.0.0.1", 0) as url, httpx.AsyncClient(base_url=url, timeout=30) as client:
            await story(client)

    asyncio.run(run())


def test_it_serves_on_a_free_port_and_leaves_signals_alone(house: House) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    async def story(client: httpx.AsyncClient) -> None:
        assert (await client.get("/health")).json() == {"status": "ok"}
        assert signal.getsignal(signal.SIGTERM) == before[0]

    serving(house, story)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize("path", ["/api/v1/events", f"/api/v1/jobs/{JOB}/logs/1/w0?follow=true"])
def test_open_streams_end_cleanly_when_it_stops(path: str, house: House) -> None:
    async def run() -> bytes:
        app = create_app(house.service, house.accounts, house.settings)
        async with httpx.AsyncClient(timeout=30) as client:
            async with serve(app, "127.0.0.1", 0) as url:
                request = client.build_request("GET", url + path, headers=OWNER)
                answer = await client.send(request, stream=True)
                parts = answer.aiter_raw()
                text = await anext(parts)
            return text + b"".join([part async for part in parts])  # raises if the end is missing

    assert asyncio.run(run())


def test_a_client_that_reconnects_goes_on_where_it_was(house: House) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        house.service.change(JOB, "scaled")
        headers = {**OWNER, "Last-Event-ID": "2"}
        async with client.stream("GET", "/api/v1/events?after=0", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if line.startswith("id:"):
                    assert line == "id: 3"
                    return

    serving(house, story)


def test_a_taken_port_is_one_clear_line(house: House) -> None:
    async def run() -> None:
        async with serve(house.app, "127.0.0.1", 0) as url:
            with pytest.raises(ElastaneError, match=r"port: \d+ on 127.0.0.1 is taken; .*--port"):
                async with serve(house.app, "127.0.0.1", int(url.rsplit(":", 1)[1])):
                    pass

    asyncio.run(run())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "gpu.example", "127.0.0.1.evil.example"])
def test_an_address_that_others_reach_needs_tls_or_an_explicit_word(host: str) -> None:
    with pytest.raises(ElastaneError, match="--insecure"):
        check_exposure(host, tls=False, insecure=False)
    check_exposure(host, tls=True, insecure=False)
    check_exposure(host, tls=False, insecure=True)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_needs_neither(host: str) -> None:
    check_exposure(host, tls=False, insecure=False)


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [("127.0.0.1", 70_000, "port"), ("no such host", 0, "host"), ("203.0.113.1", 0, "cannot listen")],
)
def test_an_address_that_cannot_be_is_one_clear_line(host: str, port: int, said: str, house: House) -> None:
    async def run() -> None:
        async with serve(house.app, host, port, insecure=True):
            pass

    with pytest.raises(ElastaneError, match=said):
        asyncio.run(run())


@pytest.mark.parametrize("files", [("missing.pem", "missing.key"), (None, "missing.key")])
def test_certificates_that_cannot_be_used_are_one_clear_line(
    files: tuple[str | None, str], house: House
) -> None:
    async def run() -> None:
        async with serve(house.app, "127.0.0.1", 0, tls_cert=files[0], tls_key=files[1]):
            pass

    with pytest.raises(ElastaneError, match="tls_"):
        asyncio.run(run())


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*made.split(), *names], check=True, capture_output=True, timeout=60)
    return cert, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_tls_handshake_that_does_not_end_is_given_up(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    assert server._HANDSHAKE_S == 10.0
    monkeypatch.setattr(server, "_HANDSHAKE_S", 0.2)

    async def run() -> None:
        async with serve(house.app, "127.0.0.1", 0, tls_cert=cert, tls_key=key) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 40) == b""  # asyncio alone would wait for 60 s
            writer.close()

    asyncio.run(run())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_with_a_certificate_it_speaks_tls(house: House, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)

    async def run() -> None:
        trusted = ssl.create_default_context(cafile=str(cert))
        async with serve(house.app, "127.0.0.1", 0, tls_cert=cert, tls_key=key) as url:
            assert url.startswith("https://")
            async with httpx.AsyncClient(verify=trusted, timeout=30) as client:
                assert (await client.get(url + "/health")).status_code == 200

    asyncio.run(run())
