"""Packages of a service: what users send, what jobs need, and the jobs that run from them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.engines.contract import Launch, Package, Shared
from elastane.engines.nodes.package_archive import write_archive
from elastane.engines.nodes.package_store import PackageStore
from elastane.engines.nodes.package_tree import look_at
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.service.messages import PackagedCode, SharedCode
from elastane.service.packages import Packages
from elastane.service.protocol import Conflict, NotFound
from elastane.service.store import Store
from service.helpers import ANN, SPEC, Clock, World, world
from service.store.samples import added


def archive(top: Path, text: str = "x") -> tuple[str, bytes]:
    top.mkdir(exist_ok=True)
    (top / "train.py").write_text(text)
    file = io.BytesIO()
    return write_archive(look_at(top), file), file.getvalue()


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 50):
        yield data[at : at + 50]


class Part:
    """Packages alone, with a store and a clock."""

    def __init__(self, home: Path) -> None:
        self.home, self.clock = home, Clock()
        self.store = Store.open(home / "elastane.db", self.clock)
        self.store.claim()
        self.packages = Packages(home, self.store, self.clock)
        self.packages.archives = PackageStore(home / "packages", most_bytes=150, young_s=10, clock=self.clock)

    def keep(self, text: str = "x") -> str:
        digest, data = archive(self.home / "top", text)
        asyncio.run(self.packages.keep(ANN, digest, pieces(data)))
        self.packages.info(digest)
        return digest


@pytest.fixture
def part(tmp_path: Path) -> Part:
    return Part(tmp_path)


def test_a_package_that_was_sent_is_here(part: Part) -> None:
    digest, data = archive(part.home / "top")
    with pytest.raises(NotFound):
        part.packages.info(digest)
    kept = asyncio.run(part.packages.keep(ANN, digest, pieces(data)))
    assert part.packages.info(digest) == kept
    assert (kept.digest, kept.bytes) == (digest, len(data))


def test_what_has_another_digest_is_refused(part: Part) -> None:
    digest, data = archive(part.home / "top")
    with pytest.raises(ElastaneError, match="have not the digest"):
        asyncio.run(part.packages.keep(ANN, digest, pieces(data + b"x")))
    with pytest.raises(NotFound):
        part.packages.info(digest)


def test_one_user_sends_few_at_a_time(part: Part) -> None:
    digest, data = archive(part.home / "top")
    go = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        await go.wait()
        yield data

    async def many() -> None:
        sending = [asyncio.ensure_future(part.packages.keep(ANN, digest, slow())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="ann is sending 2 packages already"):
            await part.packages.keep(ANN, digest, slow())
        go.set()
        await asyncio.gather(*sending)
        await part.packages.keep(ANN, digest, pieces(data))

    asyncio.run(many())


def test_nobody_fills_the_disk_with_packages(part: Part) -> None:
    folder, size = part.home / "packages", len(archive(part.home / "top")[1])
    part.packages.archives = PackageStore(folder, most_bytes=size, young_s=10, clock=part.clock)
    first, _ = part.keep("1"), part.keep("2")
    with pytest.raises(Conflict, match="too many packages here"):
        part.keep("3")
    part.clock.now_s += 100
    part.keep("3")
    with pytest.raises(NotFound):
        part.packages.info(first)


def test_a_full_disk_is_told_in_one_sentence(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elastane.engines.nodes.package_store.Incoming.finish", full)
    with pytest.raises(ElastaneError, match=r"^the package cannot be stored: No space left on device$"):
        part.keep()


def test_what_active_jobs_need_is_kept_and_the_rest_forgotten(part: Part) -> None:
    needed, other = part.keep("1"), part.keep("2")
    added(part.store, code_from={"package": needed})
    added(part.store, code_from={"shared": "/data"})
    added(part.store)
    ended = added(part.store, code_from={"package": other})
    with part.store.transaction() as t:
        t.jobs.save_job(replace(ended, state=State.CANCELLED, ended_s=1.0))
    asyncio.run(part.packages.tidy())
    part.clock.now_s += 100
    asyncio.run(part.packages.tidy())
    assert part.packages.archives.size(needed) is not None
    assert part.packages.archives.size(other) is None


def test_copies_that_jobs_need_are_there_again_after_a_start(part: Part) -> None:
    digest = part.keep()
    added(part.store, code_from={"package": digest})
    assert asyncio.run(part.packages.take_up()) == []
    assert (part.packages.archives.copy_place(digest) / "train.py").is_file()


def test_a_package_that_is_gone_is_told_at_a_start(part: Part) -> None:
    added(part.store, code_from={"package": "a" * 64})
    [problem] = asyncio.run(part.packages.take_up())
    assert problem.startswith("jobs of package aaaaaaaaaaaa cannot run: there is no package")


# In a control plane.


def launches(w: World, monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """What the engine is told from now on."""
    seen: list[Launch] = []
    ensure = w.engine.ensure
    monkeypatch.setattr(w.engine, "ensure", lambda wanted: (seen.append(wanted.launch), ensure(wanted)))
    return seen


def test_a_job_of_a_package_runs_in_its_copy_also_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, data = archive(tmp_path / "top")
    with world(tmp_path / "home") as w:
        seen = launches(w, monkeypatch)
        w.run(w.service.keep_package(ANN, digest, pieces(data)))
        assert w.service.package(digest).bytes == len(data)
        code = PackagedCode(digest=digest, top="/laptop/it")
        spec = {"command": "python /laptop/it/train.py", "env": {"PYTHONPATH": "/laptop/it"}}
        job = w.run(w.service.submit(ANN, spec, "/laptop/it", None, code)).id
        w.round()
        before = len(seen)
        w.crash()
        w.round()
        assert len(seen) > before > 0
        [copy] = {launch.directory for launch in seen}
        assert copy == str(w.plane.settings.home / "packages" / "unpacked" / digest)
        assert (Path(copy) / "train.py").is_file()
        assert {launch.command for launch in seen} == {("python", f"{copy}/train.py")}
        assert {launch.environment["PYTHONPATH"] for launch in seen} == {copy}
        assert {launch.code for launch in seen} == {Package(digest, "", "/laptop/it")}
        detail = w.service.job(job)
        assert (detail.directory, detail.code_from) == ("/laptop/it", f"package {digest[:12]}")


def test_a_job_of_which_nothing_is_said_runs_where_it_was_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        seen = launches(w, monkeypatch)
        told = [w.run(w.service.submit(ANN, SPEC, "/tmp", None, code)).id for code in (None, SharedCode())]
        w.round()
        assert {(launch.directory, launch.code) for launch in seen} == {("/tmp", Shared("/tmp"))}
        assert [w.service.job(job).code_from for job in told] == ["", "shared directory"]


def test_the_service_says_how_many_nodes_are_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path) as w:
        assert w.service.info().elsewhere == 0
        facts = {**w.engine.facts(), "elsewhere": 2}
        monkeypatch.setattr(w.engine, "facts", lambda: facts)
        assert w.service.info().elsewhere == 2
