"""Code and logs of jobs on nodes that do not see the head's disk: real processes, over a real line."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.engines.contract import Cause, Launch, Package
from elastane.engines.nodes.package_archive import write_archive
from elastane.engines.nodes.package_places import directory_on_head
from elastane.engines.nodes.package_store import PACKAGES, PackageStore
from elastane.engines.nodes.package_tree import look_at
from engines.nodes.cluster import Site, live, site

LATEST_S = 5.0
"""A line is on the head after 0.2 s or so; a busy machine may take longer."""


async def packed(living: Site, **files: str) -> Package:
    """A package on the head, of a directory that is gone."""
    top = living.home / "owner"
    top.mkdir()
    for name, text in files.items():
        (top / f"{name}.py").write_text(text)
    archive = living.home / "archive.zip"
    with archive.open("w+b") as file:
        digest = write_archive(look_at(top), file)
    store = PackageStore(living.home / PACKAGES)
    with store.receive(digest) as incoming:
        incoming.write(archive.read_bytes())
        incoming.finish()
    await store.copy(digest)
    for path in (*top.iterdir(), archive):
        path.unlink()
    top.rmdir()
    return Package(digest, "", str(top))


def launched(living: Site, code: Package, *words: str, **more: object) -> Launch:
    launch = living.launch("j1", 1, sys.executable, *words, **more)  # type: ignore[arg-type]
    return replace(launch, directory=directory_on_head(living.home, code), code=code)


def log_of(living: Site, worker: str = "w1") -> str:
    path = living.home / "jobs/j1/run/logs" / f"{worker}.log"
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
def test_a_package_is_fetched_and_what_its_workers_print_is_on_the_head_at_once(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, time, helper\n"
        "print(os.getcwd(), helper.WORD, time.time(), flush=True)\n"
        "while not pathlib.Path('over').exists(): time.sleep(0.01)\n"
    )

    async def story() -> None:
        async with site(tmp_path) as living:
            far = await living.joined("far")
            assert living.engine.node_facts()["far"].blind
            code = await packed(living, it=script, helper="WORD = 'helped'\n")
            job = launched(living, code, "it.py", kind="command")
            living.want(job, {"far": 1})
            await living.until(lambda: log_of(living).endswith("\n"))
            place, word, said_s = log_of(living).split()
            print(f"a line was on the head after {time.time() - float(said_s):.3f} s")
            assert time.time() - float(said_s) < LATEST_S
            copy = far.scratch / PACKAGES / code.digest
            assert (Path(place), word) == (copy.resolve(), "helped")
            held = copy.parent / "held" / code.digest / "j1.1"
            assert held.exists()
            (copy / "over").touch()
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.FINISHED
            assert not held.exists()

    live(story)


@pytest.mark.slow
def test_last_words_of_a_worker_on_a_node_are_why_its_job_failed(tmp_path: Path) -> None:
    words = "raise ValueError('the data are gone')"

    async def story() -> None:
        async with site(tmp_path) as living:
            await living.joined("far")
            job = living.launch("j1", 1, sys.executable, "-c", words, kind="command")
            living.want(job, {"far": 1})
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.FAILED
            assert "ValueError: the data are gone" in str(over.exit)

    live(story)


@pytest.mark.slow
def test_a_package_that_the_head_has_no_longer_is_one_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as living:
            await living.joined("far")
            code = await packed(living, it="print('never')")
            (tmp_path / PACKAGES / f"{code.digest}.zip").unlink()
            job = launched(living, code, "it.py", kind="command")
            living.want(job, {"far": 1})
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.FAILED
            assert f"node far: the head has package {code.digest[:12]} no longer" in str(over.exit)

    live(story)


@pytest.mark.slow
def test_where_a_node_sees_the_heads_disk_workers_write_there_themselves(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as living:
            far = await living.joined("far", apart=False)
            assert not living.engine.node_facts()["far"].blind
            words = "import os; print(os.environ['ELASTANE_RUN'], flush=True)"
            job = living.launch("j1", 1, sys.executable, "-c", f"{words}; import elastane", kind="rigid")
            living.want(job, {"far": 1})
            await living.until(lambda: living.over(job) is not None)
            assert not (far.scratch / "jobs/j1/run").exists()
            assert (tmp_path / "jobs/j1/run/logs/w1.log").exists()

    live(story)
