"""Where a group's members listen: at the address of their node, whatever its host name resolves to."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from elastane.train.errors import MembershipChanged
from elastane.train.worker.group import Group


class Board:
    """Addresses of the members of one group, for threads of one process."""

    def __init__(self) -> None:
        self.known: dict[int, bytes] = {}
        self._news = threading.Condition()

    def put(self, rank: int, data: bytes) -> None:
        with self._news:
            self.known[rank] = data
            self._news.notify_all()

    def get(self, rank: int, timeout_s: float) -> bytes:
        with self._news:
            assert self._news.wait_for(lambda: rank in self.known, timeout_s)
            return self.known[rank]


def test_members_tell_each_other_the_addresses_they_were_given() -> None:
    board, hosts, sums = Board(), ("127.0.0.7", "127.0.0.8"), [0.0, 0.0]

    def member(rank: int) -> None:
        group = Group(rank, 2, board, host=hosts[rank])
        tensor = torch.ones(1)
        group.all_reduce(tensor)
        sums[rank] = float(tensor)
        group.retire()

    threads = [threading.Thread(target=member, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [2.0, 2.0]
    assert all(socket.inet_aton(host) in board.known[rank] for rank, host in enumerate(hosts))


class SlowBoard(Board):
    """A board on which the others' addresses are not read before somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.open = threading.Event(), threading.Event()

    def get(self, rank: int, timeout_s: float) -> bytes:
        self.asked.set()
        assert self.open.wait(timeout_s)
        return super().get(rank, timeout_s)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_group_that_ends_leaves_connections_alone_that_were_made_beside_its_own(host: str) -> None:
    """A plan that is superseded is still being prepared while the next one is: ending it must not end the next."""
    if host == "::1" and not has_ipv6():
        pytest.skip("no IPv6 on this machine")
    slow, groups = SlowBoard(), {}
    boards: dict[str, Board] = {"old": slow, "new": Board()}

    def member(name: str, rank: int) -> None:
        groups[name, rank] = Group(rank, 2, boards[name], host=host)

    members = {
        name: [threading.Thread(target=member, args=(name, rank)) for rank in range(2)] for name in boards
    }
    for thread in members["old"]:
        thread.start()
    assert slow.asked.wait(30)
    for thread in members["new"]:
        thread.start()
    for thread in members["new"]:
        thread.join()
    beside = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    with beside, socket.create_connection(beside.getsockname()[:2]) as ours, beside.accept()[0] as theirs:
        slow.open.set()
        for thread in members["old"]:
            thread.join()
        assert {len(group._fds) for group in groups.values()} == {1}
        for rank in range(2):
            groups["old", rank].kill()
        ours.sendall(b"still here")
        assert theirs.recv(10) == b"still here"
    sums = [torch.ones(1) for _ in range(2)]
    adding = [threading.Thread(target=groups["new", r].all_reduce, args=(sums[r],)) for r in range(2)]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()
    assert [float(each) for each in sums] == [2.0] * 2
    with pytest.raises(MembershipChanged):
        groups["old", 0].all_reduce(torch.ones(1))
    for group in groups.values():
        group.retire()


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_an_address_that_is_not_this_machines_is_named() -> None:
    with pytest.raises(MembershipChanged, match=r"192\.0\.2\.1"):
        Group(0, 2, Board(), host="192.0.2.1")


MEMBER = """
    import os, sys, time
    from pathlib import Path
    import torch
    from elastane.train.worker.group import Group

    class Folder:
        def put(self, rank, data):
            (Path(sys.argv[1]) / f"part{rank}").write_bytes(data)
            (Path(sys.argv[1]) / f"part{rank}").rename(Path(sys.argv[1]) / f"rank{rank}")
        def get(self, rank, timeout_s):
            path = Path(sys.argv[1]) / f"rank{rank}"
            while not path.exists():
                time.sleep(0.02)
            return path.read_bytes()

    group = Group(int(sys.argv[2]), 2, Folder(), 60.0, host=sys.argv[3])
    tensor = torch.ones(1)
    group.all_reduce(tensor)
    assert float(tensor) == 2.0
    sys.stderr.flush()
    os._exit(0)  # an interpreter that shuts down must not meet gloo's destructors
"""


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def two_hosts() -> Iterator[tuple[str, str]]:
    """Network namespaces with a cable between them: 10.79.0.1 and 10.79.0.2."""
    names = tuple(f"el{os.getpid()}{side}" for side in "ab")
    if os.geteuid() or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("needs root, ip and unshare")
    try:
        try:
            for name in names:
                _run("ip", "netns", "add", name)
            _run(
                "ip",
                "-n",
                names[0],
                "link",
                "add",
                "e0",
                "type",
                "veth",
                "peer",
                "name",
                "e0",
                "netns",
                names[1],
            )
            for number, name in enumerate(names, 1):
                _run("ip", "-n", name, "addr", "add", f"10.79.0.{number}/24", "dev", "e0")
                _run("ip", "-n", name, "link", "set", "e0", "up")
                _run("ip", "-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode()}")
        yield names[0], names[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("hosts", ["127.0.0.1 localhost\n127.0.1.1 twin\n", ""], ids=["loopback", "nothing"])
def test_a_host_name_that_resolves_to_loopback_or_to_nothing_keeps_nobody_apart(
    tmp_path: Path, hosts: str
) -> None:
    """Debian's usual /etc/hosts made the first group of two machines hang without a word."""
    (tmp_path / "hosts").write_text(hosts)
    (tmp_path / "member.py").write_text(textwrap.dedent(MEMBER))
    words = f'mount --bind {tmp_path}/hosts /etc/hosts && hostname twin && exec "$@"'
    member = [sys.executable, str(tmp_path / "member.py"), str(tmp_path)]
    with two_hosts() as names:
        inside = [
            ["ip", "netns", "exec", n, "unshare", "--uts", "--mount", "sh", "-c", words, "-"] for n in names
        ]
        processes = [
            subprocess.Popen(
                [*within, *member, str(rank), f"10.79.0.{rank + 1}"], stderr=subprocess.PIPE, text=True
            )
            for rank, within in enumerate(inside)
        ]
        try:
            ends = [(each.communicate(timeout=120)[1][-500:], each.returncode) for each in processes]
        finally:
            for each in processes:
                each.kill()
    assert [code for _, code in ends] == [0, 0], ends
