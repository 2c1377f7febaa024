"""What goes between a hub and a node of code and logs, with nodes that are nothing but a line."""

from __future__ import annotations

import asyncio
import io
import random
from pathlib import Path

import pytest

from elastane.engines.contract import Attempt, Launch, Package
from elastane.engines.local.agent_messages import EndAttempt, FlushLogs, Ok
from elastane.engines.local.json_files import write_json
from elastane.engines.local.launch_file import launch_to_json
from elastane.engines.local.paths import LAUNCH, Layout
from elastane.engines.nodes.attempt_package import AttemptPackage
from elastane.engines.nodes.log_parts import LogOffsets, LogPart
from elastane.engines.nodes.node_packages import NodePackages, NotNowError
from elastane.engines.nodes.package_archive import write_archive
from elastane.engines.nodes.package_store import PACKAGES, PackageStore
from elastane.engines.nodes.package_tree import PackageError, look_at
from engines.nodes.head import Head, Node, begin, story, true


def kept(head: Head, tmp_path: Path, size: int = 3 << 20) -> str:
    """A package on the head that does not fit into any buffer; returns its digest."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "data").write_bytes(bytes(range(256)) * (size >> 8))
    (top / "noise").write_bytes(random.Random(0).randbytes(size))
    file = io.BytesIO()
    digest = write_archive(look_at(top), file)
    with PackageStore(head.layout.home / PACKAGES).receive(digest) as incoming:
        incoming.write(file.getvalue())
        incoming.finish()
    return digest


def launched(layout: Layout, digest: str, attempt: str = "j1.1") -> None:
    job, _, number = attempt.rpartition(".")
    folder = layout.attempt(Attempt(job, int(number)))
    folder.mkdir(parents=True)
    code = Package(digest, "", "/home/ann/it")
    launch = Launch(Attempt(job, int(number)), "x", ("true",), "/head/copy", folder, layout.run(job), code=code)
    write_json(folder / LAUNCH, launch_to_json(launch, {}))


def packages(head: Head, node: Node, folder: Path) -> NodePackages:
    return NodePackages(folder, head.join, lambda: node.dialler.session)


def test_a_node_gets_the_package_that_it_was_told_of_and_no_other(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        digest = kept(head, tmp_path)
        launched(head.layout, digest)
        node = await head.joined("far")
        here = packages(head, node, tmp_path / "packages")
        told = AttemptPackage("j1.1", digest, "/head/copy", "", "/home/ann/it")
        with pytest.raises(NotNowError, match="no attempt of this node was begun with that package"):
            await here.have(told)
        await head.ask("far", begin("j1.1"))
        assert [about.package for about in node.shop.about] == [told]
        pairs = await here.have(told)
        copy = tmp_path / "packages" / digest
        assert pairs == (("/head/copy", str(copy)), ("/home/ann/it", str(copy)))
        assert (copy / "noise").read_bytes() == (tmp_path / "top/noise").read_bytes()
        other = await head.joined("other")
        with pytest.raises(NotNowError):
            await packages(head, other, tmp_path / "elsewhere").have(told)
        await head.ask("far", EndAttempt("j1.1"))
        with pytest.raises(NotNowError):
            await packages(head, node, tmp_path / "again").have(told)

    story(tmp_path / "home", tell)


def test_a_package_that_never_comes_is_given_up_one_day(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        here = packages(head, node, tmp_path / "packages")
        told = AttemptPackage("j1.1", "a" * 64, "/head/copy")
        for _ in range(9):
            with pytest.raises(NotNowError):
                await here.have(told)
        with pytest.raises(PackageError, match="could not be fetched: no attempt of this node"):
            await here.have(told)

    story(tmp_path / "home", tell)


def test_a_package_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        launched(head.layout, "a" * 64)
        node = await head.joined("far")
        await head.ask("far", begin("j1.1"))
        with pytest.raises(PackageError, match="no longer; submit the job again"):
            await packages(head, node, tmp_path / "packages").have(AttemptPackage("j1.1", "a" * 64, "/x"))

    story(tmp_path / "home", tell)


def logs(head: Head, job: str = "j1") -> Path:
    """The folder of a job's logs on the head."""
    folder = head.layout.run(job) / "logs"
    folder.mkdir(parents=True)
    return folder


def test_parts_of_logs_are_written_before_a_flush_or_an_end_is_answered(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        folder = logs(head)
        head.attempt("j1.1")
        node = await head.joined("far")
        await head.ask("far", begin("j1.1"))
        for number in range(100):
            await node.dialler.send_log(LogPart("j1.1", "w1", 5 * number, b"%04d\n" % number))
        assert await head.ask("far", FlushLogs("j1.1")) == Ok()
        assert (folder / "w1.log").read_bytes() == b"".join(b"%04d\n" % number for number in range(100))
        await node.dialler.send_log(LogPart("j1.1", "w1", 500, b"over\n"))
        assert await head.ask("far", EndAttempt("j1.1")) == Ok()
        assert (folder / "w1.log").read_bytes().endswith(b"0099\nover\n")

    story(tmp_path, tell)


def test_parts_of_attempts_that_a_node_does_not_have_or_of_no_log_are_passed_over(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        mine, other = logs(head), logs(head, "j2")
        head.attempt("j1.1")
        head.attempt("j2.1")
        node = await head.joined("far")
        await head.ask("far", begin("j1.1"))
        await node.dialler.send_log(LogPart("j2.1", "w1", 0, b"forged\n"))
        await node.dialler.send_log(LogPart("j1.1", "../w1", 0, b"forged\n"))
        await node.dialler.send_log(LogPart("j1.1", "w1", 0, b"true\n"))
        assert await head.ask("far", FlushLogs("j1.1")) == Ok()
        assert list(other.iterdir()) == []
        assert [path.name for path in mine.iterdir()] == ["w1.log"]

    story(tmp_path, tell)


def test_a_node_that_comes_back_is_told_how_far_the_head_is(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        logs(head)
        head.attempt("j1.1")
        node = await head.joined("far")
        await head.ask("far", begin("j1.1"))
        assert [about.offsets for about in node.shop.about] == [{}]
        await node.dialler.send_log(LogPart("j1.1", "w1", 0, b"hello\n"))
        assert await head.ask("far", FlushLogs("j1.1")) == Ok()
        node.shop.logs.add("j1.1")
        await head.stop()
        await true(lambda: node.shop.breaks == 1)
        with pytest.raises(ConnectionResetError):
            await node.dialler.send_log(LogPart("j1.1", "w1", 6, b"lost\n"))
        await head.start()
        await true(lambda: bool(node.shop.offsets))
        assert node.shop.offsets == [LogOffsets("j1.1", {"w1": 6})]

    story(tmp_path, tell)


def test_a_disk_that_is_slow_does_not_make_a_node_silent(tmp_path: Path) -> None:
    """While what a node sent is not written it is not read, which is none of the node's doing."""

    async def tell(head: Head) -> None:
        logs(head)
        head.attempt("j1.1")
        node = await head.joined("far")
        await head.ask("far", begin("j1.1"))
        remote = head.remote("far")
        turn = remote._logs._turn
        await turn.acquire()
        sending = asyncio.create_task(flood(node))
        await true(lambda: remote.line is not None and remote.line._hearing)
        assert remote.line is not None
        remote.line._heard_s -= 1000.0
        remote.look()
        assert remote.line.silent_s() == 0.0
        assert not head.file("far").suspect
        turn.release()
        await sending
        assert await head.ask("far", FlushLogs("j1.1")) == Ok()
        assert remote.line is not None

    story(tmp_path, tell)


async def flood(node: Node) -> None:
    for number in range(100):
        await node.dialler.send_log(LogPart("j1.1", "w1", 10 * number, b"123456789\n"))


def test_whether_a_node_sees_the_heads_disk_is_found_out_before_it_counts(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        seeing, blind = head.node("seeing"), head.node("blind")
        seeing.shop.sees = True
        for node in (seeing, blind):
            node.dial()
        await true(lambda: head.present("seeing") and head.present("blind"))
        assert (head.file("seeing").blind, head.file("blind").blind) == (False, True)
        for name, node in (("seeing", seeing), ("blind", blind)):
            await head.ask(name, begin("j1.1"))
            assert [about.shared for about in node.shop.about] == [name == "seeing"]
        assert list(head.layout.jobs.iterdir()) == []

    story(tmp_path, tell)
