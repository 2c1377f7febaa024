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
    BeginNursery,
    EndAttempt,
    FromAgent,
    Hopeless,
    Ok,
    ShutDown,
    ToAgent,
    Unfinished,
)
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.messages import PROTOCOL, NodeHello
from elastane.engines.nodes.tunnels import Tunnels
from elastane.engines.nodes.workshop import Workshop, identity_here, relocations
from elastane.train.coordinator.job_user import Identity
from elastane.train.coordinator.relocation import RELOCATE, THERE
from elastane.train.errors import TrainError

JOIN = Join("127.0.0.1", 1, "0" * 32, "0" * 64)
RUN = "/head/jobs/j1/run"
BEGIN = BeginNursery(
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


def test_a_nursery_begins_in_the_nodes_folders_and_behind_a_tunnel(tmp_path: Path) -> None:
    told = Told([])

    async def story() -> None:
        here = shop(tmp_path, told)
        here.hello("10.0.0.7")
        assert isinstance(await here.answer(BEGIN), Ok)
        here.tunnels.close_all()

    asyncio.run(story())
    (begin,) = told.heard
    assert isinstance(begin, BeginNursery)
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
    begin = BeginNursery(attempt, BEGIN.environment, BEGIN.log, False)
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
    begin = BeginNursery("j1.1", BEGIN.environment, BEGIN.log, False, "", stranger)
    answer = asyncio.run(shop(tmp_path, Told([])).answer(begin))
    assert isinstance(answer, Hopeless)
    assert "whom this node does not have" in answer.problem
