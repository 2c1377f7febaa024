"""The hub speaks for nodes as their agents would, promises what it cannot do now, and knows who is the right one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from elastane.engines.local.agent_messages import AgentStatus, AskAgent, EndAttempt, Ok, ShutDown, Watch
from elastane.engines.local.ask_agent import end_fork_servers
from elastane.engines.local.json_files import read_json
from elastane.engines.nodes.dialler import RefusedError
from elastane.engines.nodes.hub import misfit
from elastane.engines.nodes.line import NodeLine, WrongHubError, dial
from elastane.engines.nodes.messages import TO_NODE, NodeHello, Refused, Welcome
from elastane.engines.nodes.obligations import promise, promised
from engines.nodes.head import Head, begin, story, true


def test_requests_are_answered_by_the_node(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        assert isinstance(await head.ask("far", begin("j1.1")), Ok)
        assert await head.ask("far", AskAgent()) == AgentStatus({"j1.1": 1})
        assert await head.ask("far", Watch()) == AgentStatus({"j1.1": 1})
        assert isinstance(await head.ask("far", EndAttempt("j1.1")), Ok)
        assert isinstance(await head.ask("far", ShutDown()), Ok)
        kinds = [type(message).__name__ for message in node.shop.asked]
        assert kinds == ["BeginForkServer", "AskAgent", "AskAgent", "EndAttempt", "ShutDown"]
        assert promised(head.layout, "far") == set()
        assert read_json(head.layout.begun("far")) == {}

    story(tmp_path, tell)


def test_an_attempt_that_ends_while_its_node_is_away_ends_there_before_the_node_counts(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        for attempt in ("j1.1", "j2.1", "j3.1"):
            head.attempt(attempt)
            await head.ask("far", begin(attempt))
        await node.end()
        await true(lambda: not head.present("far"))
        assert await head.ask("far", begin("j4.1")) is None  # nothing begins on a node that is away
        assert await head.ask("far", AskAgent()) is None
        for attempt in ("j1.1", "j2.1", "j9.1"):
            assert isinstance(await head.ask("far", EndAttempt(attempt)), Ok)
        assert promised(head.layout, "far") == {"j1.1", "j2.1"}  # the last was never begun there
        await head.stop()
        await head.start()  # promises are kept by whatever hub there is
        again = head.node("far")
        again.shop.attempts = set(node.shop.attempts)
        again.shop.ending.clear()
        again.dial()
        await true(lambda: bool(again.said))
        assert not head.present("far")
        again.shop.ending.set()
        await true(lambda: head.present("far"))
        assert again.shop.attempts == {"j3.1"}
        assert promised(head.layout, "far") == set()

    story(tmp_path, tell)


def test_an_attempt_that_ends_while_there_is_no_hub_ends_on_its_node_all_the_same(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        head.attempt("j1.1")
        await head.ask("far", begin("j1.1"))
        await head.stop()
        await end_fork_servers(head.layout, "j1.1", ["far", "n0"])
        await end_fork_servers(head.layout, "j2.1", ["far", "n0"])  # it was never there
        assert promised(head.layout, "far") == {"j1.1"}
        assert node.shop.attempts == {"j1.1"}
        await node.end()
        await head.start()
        again = head.node("far")
        again.shop.attempts = {"j1.1"}
        again.dial()
        await true(lambda: head.present("far"))
        assert not again.shop.attempts

    story(tmp_path, tell)


def test_an_attempt_that_begins_again_is_not_ended_by_an_older_promise(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        head.attempt("j1.1")
        await head.ask("far", begin("j1.1"))
        promise(head.layout, "far", "j1.1")
        await head.ask("far", begin("j1.1"))
        assert promised(head.layout, "far") == set()
        assert node.shop.attempts == {"j1.1"}

    story(tmp_path, tell)


def test_a_node_ends_what_the_head_does_not_know_or_knows_to_be_over(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        for attempt in ("j1.1", "j1.2"):
            head.attempt(attempt)
        (head.layout.records("j1") / "attempt-1" / "ended.json").write_text("{}")
        node = head.node("far")
        node.shop.attempts = {"j1.1", "j1.2", "other.7"}
        node.dial()
        await true(lambda: head.present("far"))
        assert node.shop.attempts == {"j1.2"}

    story(tmp_path, tell)


def test_a_node_of_another_cluster_ends_all_it_brings_along(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        head.attempt("j1.1")
        node = head.node("far")
        node.shop.attempts, node.shop.cluster = {"j1.1"}, "another"
        node.dial()
        await true(lambda: head.present("far"))
        assert not node.shop.attempts
        assert node.shop.cluster == head.admits.cluster

    story(tmp_path, tell)


def test_an_end_that_is_asked_for_when_the_line_breaks_is_promised(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        head.attempt("j1.1")
        await head.ask("far", begin("j1.1"))
        node.shop.ending.clear()
        asked = asyncio.create_task(head.ask("far", EndAttempt("j1.1")))
        await true(lambda: EndAttempt("j1.1") in node.shop.asked)
        await node.end()
        assert isinstance(await asked, Ok)
        assert promised(head.layout, "far") == {"j1.1"}

    story(tmp_path, tell)


def test_a_name_is_taken_as_long_as_its_node_is_there_and_an_older_one_is_never_let_in_again(
    tmp_path: Path,
) -> None:
    async def tell(head: Head) -> None:
        first = await head.joined("far", "first")
        lines, writer = await dial(head.join)
        line = NodeLine(lines, writer)
        line.send(msgspec.structs.replace(first.shop.machine, incarnation="second"))
        refused = await line.first(TO_NODE)
        assert isinstance(refused, Refused)
        assert (refused.why, "there already" in refused.cause) == ("taken", True)
        line.abort()
        assert head.file("far").hello.incarnation == "first"
        await first.end()
        second = await head.joined("far", "second")
        first.dial()
        assert first.task is not None
        with pytest.raises(RefusedError, match="another process has joined as node far since"):
            await first.task
        assert head.present("far")
        assert second.task is not None
        assert not second.task.done()

    story(tmp_path, tell)


def test_a_node_that_dials_again_replaces_its_own_line(tmp_path: Path) -> None:
    """Its old one may take a while to be noticed."""

    async def tell(head: Head) -> None:
        first = await head.joined("far")
        lines, writer = await dial(head.join)
        line = NodeLine(lines, writer)
        line.send(first.shop.machine)
        assert isinstance(await line.first(TO_NODE), Welcome)
        await true(lambda: any("the line is lost" in words for words in first.said))
        line.abort()
        await true(lambda: "joined again" in first.said)

    story(tmp_path, tell)


def test_a_silent_node_is_suspect_and_then_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastane.engines.nodes.hub_node.SUSPECT_S", 0.5)

    async def tell(head: Head) -> None:
        lines, writer = await dial(head.join)
        line = NodeLine(lines, writer)
        line.send(head.node("far").shop.machine)
        assert isinstance(await line.first(TO_NODE), Welcome)
        await true(lambda: head.present("far"))
        await true(lambda: head.file("far").suspect)
        await true(lambda: not head.present("far"))
        assert await head.ask("far", AskAgent()) is None
        line.abort()

    story(tmp_path, tell, lease_s=4.0)


def test_a_node_that_says_farewell_is_forgotten_and_may_come_back(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        await node.dialler.leave()
        await node.end()
        await true(lambda: not head.layout.joined("far").exists())
        await head.joined("far", "second")

    story(tmp_path, tell)


def test_a_node_says_that_it_will_be_taken_away_and_again_on_every_line(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far")
        assert head.file("far").facts().leaving_s is None
        node.dialler.leaving(3600.0)
        await true(lambda: head.file("far").leaving_s is not None)
        first_s = head.file("far").facts().leaving_s
        assert first_s is not None
        assert 0.0 < first_s <= 3600.0
        session = node.dialler.session
        await head.stop()
        await head.start()
        await true(lambda: node.dialler.session not in ("", session) and head.present("far"))
        await true(lambda: head.file("far").leaving_s is not None)
        again_s = head.file("far").leaving_s
        assert again_s is not None
        assert again_s < first_s
        # The next machine of that name has not been told so.
        await node.dialler.leave()
        await node.end()
        await true(lambda: not head.layout.joined("far").exists())
        await head.joined("far", "second")
        assert head.file("far").leaving_s is None

    story(tmp_path, tell)


def test_a_node_that_is_away_for_long_is_forgotten_once_it_has_nothing_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastane.engines.nodes.hub._FORGET_S", 0.0)

    async def tell(head: Head) -> None:
        busy, idle = await head.joined("busy"), await head.joined("idle")
        head.attempt("j1.1")
        await head.ask("busy", begin("j1.1"))
        busy.shop.ending.clear()
        ending = asyncio.create_task(head.ask("busy", EndAttempt("j1.1")))
        await true(lambda: EndAttempt("j1.1") in busy.shop.asked)
        await busy.end()
        await ending
        await idle.end()
        await true(lambda: not head.layout.node("idle").exists())
        assert promised(head.layout, "busy") == {"j1.1"}

    story(tmp_path, tell)


def test_names_of_the_heads_own_nodes_are_refused(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        head.layout.node("n0").mkdir(parents=True)
        node = head.node("n0")
        lines, writer = await dial(head.join)
        line = NodeLine(lines, writer)
        line.send(node.shop.machine)
        refused = await line.first(TO_NODE)
        assert isinstance(refused, Refused)
        assert refused.why == "own"
        line.abort()

    story(tmp_path, tell)


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 64])
def test_a_name_that_could_be_a_path_is_no_hello(tmp_path: Path, name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"protocol": 1, "node": name, "incarnation": "i", "type": "hello"}, NodeHello)


def test_another_protocol_is_refused_and_other_versions_get_no_work(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        old = head.node("old")
        old.shop.machine = msgspec.structs.replace(old.shop.machine, protocol=0, versions={"elastane": "0.0.1"})
        old.dial()
        assert old.task is not None
        with pytest.raises(RefusedError, match=r"has Elastane 0\.0\.1, the head .*: install the same version"):
            await old.task
        other = head.node("other")
        versions = {**other.shop.machine.versions, "torch": "1.0"}
        other.shop.machine = msgspec.structs.replace(other.shop.machine, versions=versions)
        other.dial()
        await true(lambda: head.present("other") and bool(other.said))
        assert "PyTorch 1.0" in head.file("other").unfit
        assert "nothing will be placed here" in other.said[0]

    story(tmp_path, tell)


def test_versions_fit_by_their_first_two_numbers() -> None:
    head = {"elastane": "1.0", "python": "3.11.7", "torch": "2.13.0+cpu"}
    assert misfit(head, {**head, "python": "3.11.9", "torch": "2.13.1+cu130"}) == ""
    assert misfit({**head, "torch": ""}, head) == ""
    assert "has no PyTorch" in misfit(head, {**head, "torch": ""})
    assert "Elastane 1.1" in misfit(head, {**head, "elastane": "1.1"})


def test_a_wrong_secret_and_a_wrong_certificate_are_told_apart(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        join = head.join
        with pytest.raises(WrongHubError, match="knows another secret"):
            await dial(type(join)(join.host, join.port, "0" * 32, join.fingerprint))
        with pytest.raises(WrongHubError, match="has another certificate"):
            await dial(type(join)(join.host, join.port, join.secret, "0" * 64))

    story(tmp_path, tell)


def test_orphans_end_their_attempts_after_a_while(tmp_path: Path) -> None:
    async def tell(head: Head) -> None:
        node = await head.joined("far", orphan_s=0.5)
        head.attempt("j1.1")
        await head.ask("far", begin("j1.1"))
        await head.stop()
        await true(lambda: not node.shop.attempts)
        assert any("nobody was there for" in words for words in node.said)

    story(tmp_path, tell)
