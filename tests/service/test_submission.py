"""Submission alone: with an intake that only notes what it is given, a store and a fake engine."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from elastane.cluster import Node
from elastane.engines.contract import Examined
from elastane.engines.nodes.package_archive import write_archive
from elastane.engines.nodes.package_tree import look_at
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.intake import Intake, NewJob
from elastane.service.messages import PackagedCode, SentCode, SharedCode
from elastane.service.packages import Packages
from elastane.service.protocol import NotFound
from elastane.service.store import JobRow, Store
from elastane.service.submission import Submission
from elastane.testing.engines.fake_engine import FakeEngine
from service.helpers import ANN, SPEC, Clock


def _row(new: NewJob) -> JobRow:
    return JobRow(
        number=7,
        name=new.spec.name,
        owner=new.owner,
        tenant=new.spec.tenant,
        spec=new.values,
        directory=new.directory,
        submitted_s=0.0,
        state=State.QUEUED,
        kind=new.kind,
    )


@dataclass
class NotingIntake:
    """Keeps what it was given."""

    taken: list[NewJob] = field(default_factory=list)

    def under_way(self, owner: str, key: str) -> asyncio.Future[JobRow] | None:
        found = [new for new in self.taken if (new.owner, new.key) == (owner, key)]
        if not found:
            return None
        stored: asyncio.Future[JobRow] = asyncio.get_running_loop().create_future()
        stored.set_result(_row(found[0]))
        return stored

    async def take(self, job: NewJob) -> JobRow:
        self.taken.append(job)
        return _row(job)


class Asked(FakeEngine):
    """Says of every command what a test wants to hear."""

    answer = Examined("adaptive", "a test says so")
    looked_at: tuple[str, ...] = ()
    looked_in = ""

    async def examine(self, _kind: str, command: Any, directory: str, *_args: Any, **_more: Any) -> Examined:
        self.looked_at, self.looked_in = tuple(command), directory
        return self.answer


class Part:
    """The part under test, and what it was given."""

    def __init__(self, home: Path, checkpoints: str = "") -> None:
        self.clock = Clock()
        self.store = Store.open(home / "elastane.db", self.clock)
        self.engine = Asked([Node("n0", 2, "cpu")], self.clock)
        self.intake = NotingIntake()
        self.live: list[LiveJob] = []
        self.packages = Packages(home, self.store)
        self.part = Submission(
            cast("Intake", self.intake), self.store, self.engine, self.packages, checkpoints, lambda: self.live
        )

    def submit(
        self, key: str | None = None, directory: str = "/data", code: SentCode | None = None, **spec: Any
    ) -> Any:
        return asyncio.run(self.part.submit(ANN, {**SPEC, **spec}, directory, key, code))


@pytest.fixture
def part(tmp_path: Path) -> Part:
    return Part(tmp_path)


def test_what_is_stored_has_the_owners_tenant_and_the_directory_to_run_in(part: Part) -> None:
    answer = part.submit(workdir="runs/../here")
    [new] = part.intake.taken
    assert (answer.id, answer.repeated) == ("j7", False)
    assert (new.owner, new.spec.tenant, new.directory) == ("ann", "default", "/data/here")
    assert (new.kind, new.why_kind) == ("adaptive", "a test says so")


def test_a_key_that_is_just_being_stored_is_not_taken_again(part: Part) -> None:
    assert not part.submit("key").repeated
    again = part.submit("key")
    assert (again.id, again.repeated) == ("j7", True)
    assert len(part.intake.taken) == 1


def test_what_cannot_run_never_reaches_the_intake(part: Part) -> None:
    with pytest.raises(ElastaneError, match=r"workers\.min: 3 workers"):
        part.submit(workers=3)
    part.engine.answer = Examined("adaptive", "", missing="there is no script train.py")
    with pytest.raises(ElastaneError, match=r"command: there is no script train\.py"):
        part.submit()
    assert not part.intake.taken


def test_a_job_that_names_no_place_gets_one_of_its_own_beneath_the_systems(tmp_path: Path) -> None:
    part = Part(tmp_path, "s3://bucket/all/")
    part.submit()
    part.submit(checkpoints="gs://mine/x")
    own, other, named = (*(part.submit() and part.intake.taken[-1] for _ in range(2)), part.intake.taken[1])
    assert own.values["checkpoints"] == own.spec.checkpoints
    assert own.spec.checkpoints.startswith("s3://bucket/all/{job}-")
    assert own.spec.checkpoints != other.spec.checkpoints
    assert named.spec.checkpoints == "gs://mine/x"


def test_without_a_place_of_the_system_jobs_save_where_they_always_did(part: Part) -> None:
    part.submit()
    assert part.intake.taken[0].spec.checkpoints is None


def test_two_jobs_at_once_cannot_save_in_the_same_place(part: Part) -> None:
    part.submit(checkpoints="/mnt/x")
    part.live.append(LiveJob.of(_row(part.intake.taken[0])))
    with pytest.raises(
        ElastaneError, match=r"^checkpoints: those of job j7, which has not ended, lie at /mnt/x/; name"
    ):
        part.submit(checkpoints="/mnt/x/")
    part.submit(checkpoints="/mnt/x/{job}")
    part.live.clear()
    part.submit(checkpoints="file:///mnt/x")


def test_a_place_for_a_script_that_does_not_use_the_library_is_said_to_be_unused(part: Part) -> None:
    part.engine.answer = Examined("resizable", "a test says so")
    warnings = part.submit(checkpoints="/mnt/x", epochs=3).warnings
    assert (
        "epochs and checkpoints: only scripts that use elastane.train go by that; this one is resizable"
        in warnings
    )


def test_a_shared_directory_is_run_as_it_is_and_that_is_stored(part: Part) -> None:
    part.submit(code=SharedCode(), workdir="here")
    [new] = part.intake.taken
    assert (new.directory, new.code_from) == ("/data/here", {"shared": "/data/here"})
    assert part.engine.looked_in == "/data/here"


def test_of_a_package_that_is_looked_at_which_will_run(part: Part, tmp_path: Path) -> None:
    digest = sent(part, tmp_path / "top")
    code = PackagedCode(digest=digest, subdirectory="sub", top="/laptop/it")
    part.submit(code=code, directory="/laptop/it/sub", command="python /laptop/it/sub/train.py")
    [new] = part.intake.taken
    assert list(new.spec.command) == ["python", "/laptop/it/sub/train.py"]
    assert part.engine.looked_at == ("python", f"{part.engine.looked_in}/train.py")
    assert new.directory == "/laptop/it/sub"
    assert new.code_from == {"package": digest, "subdirectory": "sub", "top": "/laptop/it"}
    assert part.engine.looked_in == str(tmp_path / "packages" / "unpacked" / digest / "sub")
    assert (Path(part.engine.looked_in) / "train.py").is_file()


def test_a_package_that_is_not_here_or_has_no_such_directory_is_refused(part: Part, tmp_path: Path) -> None:
    digest = sent(part, tmp_path / "top")
    with pytest.raises(NotFound, match="there is no package 'aaaaaaaaaaaa'"):
        part.submit(code=PackagedCode(digest="a" * 64))
    for inner in ("other", "sub/train.py"):
        with pytest.raises(ElastaneError, match=f"the package has no directory '{inner}'"):
            part.submit(code=PackagedCode(digest=digest, subdirectory=inner))
    with pytest.raises(ElastaneError, match="leads out of the package"):
        part.submit(code=PackagedCode(digest=digest, subdirectory="../.."))
    assert not part.intake.taken


def sent(part: Part, top: Path) -> str:
    """The digest of a package that was sent."""
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "train.py").touch()
    file = io.BytesIO()
    digest = write_archive(look_at(top), file)

    async def pieces() -> AsyncIterator[bytes]:
        yield file.getvalue()

    asyncio.run(part.packages.keep(ANN, digest, pieces()))
    return digest


def test_a_job_that_would_save_where_a_node_cannot_read_is_refused_unless_it_says_where(part: Part) -> None:
    part.engine.add_node(Node("far", 2, "cpu"), blind=True)
    with pytest.raises(
        ElastaneError, match=r"far does not see .*jobs; say where with 'elastane up --checkpoints"
    ):
        part.submit()
    part.submit(checkpoints="s3://mine/x")
    part.engine.answer = Examined("command", "")
    part.submit(kind="command")
    assert len(part.intake.taken) == 2
