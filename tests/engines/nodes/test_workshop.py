"""A node puts what the head asks for into its own terms before its agent hears it."""

from __future__ import annotations

import asyncio
import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from elastane.engines.local.agent_messages import (
    AskAgent,
    BeginForkServer,
    EndAttempt,
    FromAgent,
    Hopeless,
    LookAt,
    Ok,
    Seen,
    ShutDown,
    ToAgent,
    Unfinished,
)
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.attempt_package import AttemptPackage
from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.messages import PROTOCOL, AttemptTold, NodeHello
from elastane.engines.nodes.node_packages import NotNowError
from elastane.engines.nodes.package_tree import PackageError
from elastane.engines.nodes.tunnels import Tunnels
from elastane.engines.nodes.workshop import Workshop, identity_here, relocations
from elastane.train.coordinator.job_user import Identity
from elastane.train.coordinator.relocation import RELOCATE, THERE
from elastane.train.errors import TrainError

JOIN = Join("127.0.0.1", 1, "0" * 32, "0" * 64)
RUN = "/head/jobs/j1/run"
BEGIN = BeginForkServer(
    "j1.2",
    {"ELASTANE_COORDINATOR": "127.0.0.1:4711", "ELASTANE_RUN": RUN, "MINE": RUN},
    "/head/control/j1/nursery.log",
    False,
)


class Told:
    """An agent that keeps what it hears; some ends do not succeed at once."""

    name = "incarnation"

    def __init__(self, attempts: list[str], unfinished: int = 0) -> None:
        self.attempts, self.unfinished = attempts, unfinished
        self.heard: list[ToAgent] = []

    async def answer(self, message: ToAgent) -> FromAgent:
        self.heard.append(message)
        if isinstance(message, EndAttempt):
            if self.unfinished:
                self.unfinished -= 1
                return Unfinished()
            if message.attempt in self.attempts:
                self.attempts.remove(message.attempt)
        return Ok()


def shop(home: Path, told: Told, **more: Any) -> Workshop:
    machine = NodeHello(PROTOCOL, "far", "", cores=3)
    return Workshop(told, Layout(home), machine, Tunnels(JOIN, lambda: ""), **more)  # type: ignore[arg-type]


def test_a_fork_server_begins_in_the_nodes_folders_and_behind_a_tunnel(tmp_path: Path) -> None:
    told = Told([])

    async def story() -> None:
        here = shop(tmp_path, told)
        here.hello("10.0.0.7")
        assert isinstance(await here.answer(BEGIN), Ok)
        here.tunnels.close_all()

    asyncio.run(story())
    (begin,) = told.heard
    assert isinstance(begin, BeginForkServer)
    run = tmp_path / "jobs/j1/run"
    assert (run / "logs").is_dir()
    assert begin.log == str(tmp_path / "control/j1/nursery.log")
    assert Path(begin.log).parent.is_dir()
    environment = begin.environment
    here, there = environment[THERE].split(":")
    assert there == "4711"
    assert environment["ELASTANE_COORDINATOR"] == f"127.0.0.1:{here}"
    assert (environment["ELASTANE_RUN"], environment["MINE"]) == (str(run), RUN)
    assert environment["ELASTANE_HOST"] == "10.0.0.7"
    assert [RUN, str(run)] in json.loads(environment[RELOCATE])
    assert relocations(Layout(tmp_path), BEGIN) == [(BEGIN.log, begin.log), (RUN, str(run))]


def test_an_address_that_was_chosen_is_told_to_all(tmp_path: Path) -> None:
    told = Told(["j1.1"])

    async def story() -> None:
        here = shop(tmp_path, told, address="ib0.far")
        hello = here.hello("10.0.0.7")
        assert (hello.address, hello.incarnation, hello.cores) == ("ib0.far", "incarnation", 3)
        assert hello.attempts == {"j1.1": True}
        await here.answer(BEGIN)
        here.tunnels.close_all()

    asyncio.run(story())
    assert told.heard[0].environment["ELASTANE_HOST"] == "ib0.far"  # type: ignore[union-attr]


def test_the_cluster_is_remembered_over_restarts(tmp_path: Path) -> None:
    here = shop(tmp_path, Told([]))
    assert here.hello("").cluster == ""
    here.belongs_to("c1")
    assert shop(tmp_path, Told([])).hello("").cluster == "c1"


@pytest.mark.parametrize("attempt", ["../../etc.1", "j1", "", "j1.x"])
def test_what_is_no_attempt_begins_nothing(tmp_path: Path, attempt: str) -> None:
    told = Told([])
    begin = BeginForkServer(attempt, BEGIN.environment, BEGIN.log, False)
    assert isinstance(asyncio.run(shop(tmp_path, told).answer(begin)), Hopeless)
    assert told.heard == []


def test_a_shut_down_ends_attempts_and_not_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastane.engines.nodes.workshop._AGAIN_S", 0.0)
    told, ended = Told(["j1.1", "j2.1"], unfinished=3), list[bool]()
    here = shop(tmp_path, told, on_shut_down=lambda: ended.append(True))
    assert isinstance(asyncio.run(here.answer(ShutDown())), Ok)
    assert told.attempts == []
    assert ended == [True]
    assert {type(message) for message in told.heard} == {EndAttempt}
    assert isinstance(asyncio.run(here.answer(AskAgent())), Ok)


def test_jobs_run_as_the_user_of_the_same_name(tmp_path: Path) -> None:
    assert identity_here(None) is None
    other = Identity(getpass.getuser(), 123456, 123456, (7,), "/elsewhere")
    mine = identity_here(other)
    assert mine is not None
    assert mine.uid != 123456
    assert mine.home == str(Path.home())
    stranger = Identity("nobody-of-that-name", 1, 1, (), "/")
    with pytest.raises(TrainError, match="whom this node does not have"):
        identity_here(stranger)
    begin = BeginForkServer("j1.1", BEGIN.environment, BEGIN.log, False, "", stranger)
    answer = asyncio.run(shop(tmp_path, Told([])).answer(begin))
    assert isinstance(answer, Hopeless)
    assert "whom this node does not have" in answer.problem


class Slow:
    """Packages that never come; and who let go of them."""

    def __init__(self) -> None:
        self.asked, self.released = asyncio.Event(), list[str]()

    async def have(self, told: AttemptPackage) -> tuple[tuple[str, str], ...]:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError(told)

    def release(self, attempt: str) -> None:
        self.released.append(attempt)


def test_an_end_comes_before_a_package_that_is_still_being_fetched(tmp_path: Path) -> None:
    told, slow = Told([]), Slow()

    async def story() -> None:
        here = shop(tmp_path, told, packages=slow)
        here.told(AttemptTold("j1.2", AttemptPackage("j1.2", "a" * 64, "/head")))
        assert here.hello("").attempts == {"j1.2": True}
        begins = [asyncio.create_task(here.answer(BEGIN)) for _ in range(2)]
        await slow.asked.wait()
        assert isinstance(await here.answer(EndAttempt("j1.2")), Ok)
        assert [type(await each) for each in begins] == [Unfinished, Unfinished]
        assert here.hello("").attempts == {}

    asyncio.run(story())
    assert told.heard == [EndAttempt("j1.2")]
    assert slow.released == ["j1.2"]


class Without:
    """Packages of which none can be had."""

    async def have(self, told: AttemptPackage) -> tuple[tuple[str, str], ...]:
        raise NotNowError("the line broke") if told.digest == "b" else PackageError("no room on the disk")

    def release(self, attempt: str) -> None:
        pass


def test_a_package_that_cannot_be_had_is_hopeless_and_a_line_that_broke_is_not(tmp_path: Path) -> None:
    told = Told([])

    async def story() -> None:
        here = shop(tmp_path, told, packages=Without())
        here.told(AttemptTold("j1.2", AttemptPackage("j1.2", "b", "/head")))
        assert isinstance(await here.answer(BEGIN), Unfinished)
        here.told(AttemptTold("j1.2", AttemptPackage("j1.2", "a", "/head")))
        assert await here.answer(BEGIN) == Hopeless("node far: no room on the disk")
        here.told(AttemptTold("j1.2"))
        assert await here.answer(BEGIN) == Hopeless(
            "node far: no room on the disk"
        )  # whoever missed it hears it
        await here.answer(EndAttempt("j1.2"))
        assert isinstance(await here.answer(BEGIN), Ok)
        here.tunnels.close_all()

    asyncio.run(story())


def test_a_run_folder_that_this_node_sees_is_used_itself(tmp_path: Path) -> None:
    run = tmp_path / "head/jobs/j1/run"
    run.mkdir(parents=True)
    begin = BeginForkServer("j1.2", {**BEGIN.environment, "ELASTANE_RUN": str(run)}, BEGIN.log, False)
    told = Told([])

    async def story() -> None:
        here = shop(tmp_path / "node", told)
        here.told(AttemptTold("j1.2", shared=True))
        assert isinstance(await here.answer(begin), Ok)
        here.tunnels.close_all()

    asyncio.run(story())
    (heard,) = told.heard
    assert isinstance(heard, BeginForkServer)
    assert heard.environment["ELASTANE_RUN"] == str(run)
    assert not (tmp_path / "node/jobs/j1/run").exists()


def test_a_node_tells_what_it_sees_of_a_probe_and_of_nothing_else(tmp_path: Path) -> None:
    for name in (".probe-1", "secret"):
        (tmp_path / name).write_text(name)
    here = shop(tmp_path / "node", Told([]))
    assert asyncio.run(here.answer(LookAt(str(tmp_path / ".probe-1")))) == Seen(".probe-1")
    assert asyncio.run(here.answer(LookAt(str(tmp_path / "secret")))) == Seen()
    assert asyncio.run(here.answer(LookAt(str(tmp_path / ".probe-2")))) == Seen()
    apart = shop(tmp_path / "node", Told([]), own_disk=True)
    assert asyncio.run(apart.answer(LookAt(str(tmp_path / ".probe-1")))) == Seen()
