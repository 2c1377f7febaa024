"""``elastane node`` says in one line why a machine cannot join, and joins where it can."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane.engines.local.json_files import Lock
from elastane.engines.local.marked_processes import marked
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.joining import Join

PATIENCE_S = 120.0


class Head:
    """A live system that lets machines join, and the command line beside it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder = folder / "home", folder
        self.nodes: list[subprocess.Popen[str]] = []

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), timeout=PATIENCE_S, text=True, capture_output=True, **self.place
        )

    @property
    def place(self) -> dict[str, object]:
        return {"cwd": self.folder, "env": {**os.environ, "ELASTANE_HOME": str(self.home)}}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "elastane", *words]

    def join(self) -> str:
        said = self.run("node", "secret")
        assert said.returncode == 0, said.stderr
        words = said.stdout.split()
        assert words[:2] == ["elastane", "node"]
        return words[2].strip("'")

    def words(self, name: str, join: str) -> tuple[str, ...]:
        return ("node", join, f"--name={name}", f"--scratch={self.folder / name}")

    def start(self, name: str, *options: str) -> subprocess.Popen[str]:
        command = self.command(*self.words(name, self.join()), *options)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.nodes.append(subprocess.Popen(command, text=True, **pipes, **self.place))
        return self.nodes[-1]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    head = Head(tmp_path)
    yield head
    if head.home.exists():
        head.run("down")
    for node in head.nodes:
        with contextlib.suppress(ProcessLookupError):
            node.terminate()
        node.communicate(timeout=PATIENCE_S)
    assert list(marked(head.home)) == []
    assert not Lock(Layout(head.home).hub_lock).held


def refused(said: subprocess.CompletedProcess[str]) -> str:
    """The one line with which a mistake is answered."""
    assert said.returncode == 2, said.stdout + said.stderr
    assert len(said.stderr.strip().splitlines()) == 1, said.stderr
    return said.stderr


def test_what_is_no_join_string_is_said_in_one_line(head: Head) -> None:
    assert "this is no join string" in refused(head.run("node", "elastane://head:7077"))
    assert "no node can join" in refused(head.run("node", "secret"))
    assert "--listen: must be HOST:PORT" in refused(head.run("up", "--listen=7077"))


def test_a_join_string_comes_from_a_file_that_nobody_else_may_read(head: Head) -> None:
    file = head.folder / "join"
    words = ("node", "--join-file", str(file))
    assert "cannot be read: No such file" in refused(head.run(*words))
    file.write_text("elastane node 'nothing'\n")
    file.chmod(0o640)
    assert f"chmod 600 {file}" in refused(head.run(*words))
    file.chmod(0o600)
    assert "has no join string" in refused(head.run(*words))
    assert "say how to join" in refused(head.run("node"))
    assert "not by both" in refused(head.run(*words, "elastane://head:7077"))


def test_a_head_that_is_not_there_is_said_in_one_line(head: Head) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and nobody listens
        join = str(Join("127.0.0.1", free.getsockname()[1], "0" * 32, "0" * 64))
        said = refused(head.run(*head.words("far", join)))
    assert "cannot be reached" in said
    assert "is 'elastane up --listen' running there, and the port open?" in said
    assert list(marked(head.folder / "far")) == []


@pytest.mark.slow
def test_machines_join_and_leave_and_mistakes_are_told_apart(head: Head) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"--listen: {address} cannot be listened on" in refused(
            head.run("up", "-d", "--slots=1", f"--listen={address}")
        )
    up = head.run("up", "-d", "--slots=1", "--listen=127.0.0.1:0", "--json")
    assert up.returncode == 0, up.stderr
    joins, join = json.loads(up.stdout)["joins"], Join.parse(head.join())
    assert joins == f"127.0.0.1:{join.port}"
    assert join.secret not in (head.home / "elastane.log").read_text() + (head.home / "hub/hub.log").read_text()
    wrong = Join(join.host, join.port, "0" * 32, join.fingerprint)
    assert "knows another secret" in refused(head.run(*head.words("x", str(wrong))))
    wrong = Join(join.host, join.port, join.secret, "0" * 64)
    assert "has another certificate than the join string says" in refused(
        head.run(*head.words("x", str(wrong)))
    )
    assert "a node's name is" in refused(head.run(*head.words("a b", str(join))))
    assert "the head has a node n0 of its own" in refused(head.run(*head.words("n0", str(join))))

    first, second = head.start("first"), head.start("second", "--once")
    for node, name in ((first, "first"), (second, "second")):
        assert node.stdout is not None
        assert node.stdout.readline() == f"node {name}: joined\n"
    nodes = {node["id"]: node for node in json.loads(head.run("nodes", "--json").stdout)}
    assert {"n0", "first", "second"} <= nodes.keys()
    assert "another 'elastane node' runs in" in refused(head.run(*head.words("first", str(join))))
    again = head.run("node", str(join), "--name=first", f"--scratch={head.folder / 'another'}")
    assert "node first is there already" in refused(again)

    third = head.start("third")
    assert third.stdout is not None
    assert third.stdout.readline() == "node third: joined\n"
    third.send_signal(signal.SIGINT)
    said, _ = third.communicate(timeout=PATIENCE_S)
    assert "node third has left" in said
    assert third.returncode == 0
    down = head.run("down")
    assert down.returncode == 0, down.stderr
    said, _ = second.communicate(timeout=PATIENCE_S)
    assert "node second has left" in said
    assert first.poll() is None  # it waits for the next head, which takes it up again
    up = head.run("up", "-d", "--slots=1", "--listen=127.0.0.1:0", "--json")
    assert json.loads(up.stdout)["joins"] == joins
    said = ""
    while "joined again" not in said:
        assert first.stdout is not None
        line = first.stdout.readline()
        assert line, said
        said += line
    assert "the line is lost" in said


@pytest.mark.slow
def test_a_node_joins_by_file_works_and_ends_by_itself_when_it_was_idle(head: Head) -> None:
    up = head.run("up", "-d", "--slots=1", "--listen=127.0.0.1:0")
    assert up.returncode == 0, up.stderr
    file = head.folder / "join"
    file.touch(mode=0o600)
    file.write_text(head.run("node", "secret").stdout)
    scratch = f"--scratch={head.folder / 'lent'}"
    words = ("node", f"--join-file={file}", "--name=lent", scratch, "--idle-s=3")
    lent = subprocess.Popen(
        head.command(*words), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **head.place
    )
    head.nodes.append(lent)
    assert lent.stdout is not None
    assert lent.stdout.readline() == "node lent: joined\n"
    assert Join.parse(head.join()).secret.encode() not in Path(f"/proc/{lent.pid}/cmdline").read_bytes()
    said, _ = lent.communicate(timeout=PATIENCE_S)
    assert lent.returncode == 0
    assert "nothing of it runs any more" in said
