"""Hosts in a box: apart from each other and from this machine, and gone without a trace."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane.testing.hosts import Box, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path, hosts=2) as made:
        yield made


SERVER = """
    import socket, sys
    server = socket.create_server((sys.argv[1], 0))
    print(server.getsockname()[1], flush=True)
    while True:
        line, _ = server.accept()
        line.sendall(line.recv(10))
        line.close()
"""
DIAL = """
    import socket, sys, time
    line = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    time.sleep(600)
"""
CLIENT = """
    import socket, sys
    line = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1)
    line.sendall(b"hello")
    print(line.recv(10).decode())
"""


def python(text: str) -> tuple[str, str, str, str]:
    return (sys.executable, "-S", "-c", textwrap.dedent(text))


def test_hosts_hear_each_other_until_the_cable_is_pulled_and_again_when_it_is_back(box: Box) -> None:
    here, there = box.hosts
    server = there.start(*python(SERVER), "0.0.0.0", output=subprocess.PIPE)
    assert server.stdout is not None
    port = server.stdout.readline().decode().strip()
    ask = (*python(CLIENT), "host1", port)
    assert here.do(*ask) == "hello\n"
    there.cut()
    with pytest.raises(Exception, match=r"timed out|timeout|No route"):
        here.do(*ask)
    there.mend()
    assert here.do(*ask) == "hello\n"


def test_a_host_has_its_own_name_processes_and_disk(box: Box, tmp_path: Path) -> None:
    here, there = box.hosts
    assert here.do("hostname") == "host0\n"
    here.private(tmp_path / "disk")
    here.do("touch", str(tmp_path / "disk" / "mine"))
    assert not list((tmp_path / "disk").iterdir())
    assert there.do("ls", str(tmp_path / "disk")) == ""
    inside = [name for name in there.do("ls", "/proc").split() if name.isdigit()]
    assert 1 <= len(inside) <= 2, "it sees its first process and the one that looks"


def test_a_host_that_is_switched_off_takes_its_processes_along_and_can_be_booted_again(box: Box) -> None:
    host = box.hosts[1]
    program = host.start(
        *python("import time; print('on', flush=True); time.sleep(600)"), output=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.readline()
    assert host.processes()
    host.kill()
    assert program.wait(10) != 0
    assert not host.processes()
    host.boot()
    assert host.do("hostname") == "host1\n"


def test_nothing_is_left_in_this_machines_network(box: Box) -> None:
    assert "port0" not in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout


def test_a_thread_may_use_a_hosts_network_and_comes_back(box: Box) -> None:
    first, second = box.hosts
    before = Path("/proc/thread-self/ns/net").readlink()
    with first.network():
        assert Path("/proc/thread-self/ns/net").readlink() != before
        with socket.create_server((first.address, 0)) as server:
            port = server.getsockname()[1]
            with second.network(), socket.create_connection((first.address, port), timeout=20.0) as line:
                assert line.getpeername() == (first.address, port)
    assert Path("/proc/thread-self/ns/net").readlink() == before


def test_the_kernel_of_a_host_that_was_not_silenced_says_that_its_processes_are_gone(box: Box) -> None:
    first, second = box.hosts
    with first.network():
        server = socket.create_server((first.address, 0))
    with server:
        words = [first.address, str(server.getsockname()[1])]
        second.start(sys.executable, "-c", textwrap.dedent(DIAL), *words)
        line, _ = server.accept()
        with line:
            line.settimeout(20.0)
            second.kill(silently=False)
            assert line.recv(1) == b""
