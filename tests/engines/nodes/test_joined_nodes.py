"""Real jobs on nodes that have joined: they train across machines, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from elastane.engines.contract import Cause, Ending, Launch
from elastane.engines.local.paths import Layout
from elastane.engines.nodes import joined_nodes
from elastane.engines.nodes.obligations import promised
from elastane.train.reports.events import Stepped, WorkerLost
from engines.nodes.cluster import Site, begun, live, site


def counts(out: Path) -> set[str]:
    return set(out.read_text().split())


async def finish(living: Site, job: Launch) -> None:
    living.enough()
    await living.until(lambda: living.over(job) is not None)
    over = living.over(job)
    assert over is not None
    assert over.cause is Cause.FINISHED, over
    assert counts(living.out) == {"1"}


@pytest.mark.slow
def test_a_job_grows_from_the_head_to_a_joined_node_and_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as living:
            far = await living.joined("far")
            node, facts = living.engine.nodes()["far"], living.engine.node_facts()["far"]
            assert node.gpus == os.cpu_count() or node.gpus == len(os.sched_getaffinity(0))
            assert (facts.address, facts.unfit, facts.suspect) == ("127.0.0.1", "", False)
            job = living.counting()
            living.want(job, {"n0": 1})
            await living.until(lambda: living.on(job) == {"n0": 1})
            living.want(job, {"n0": 1, "far": 1})
            await living.until(lambda: living.on(job) == {"n0": 1, "far": 1})
            assert set(begun(living, "far")) == {"j1.1"}
            pids = {w.node: w.pid for w in living.engine.processes(job.attempt)}
            assert pids["far"] in far.family()
            assert (far.scratch / "jobs/j1/run/logs").is_dir()
            seen = len(living.events(Stepped, "j1"))
            await living.until(lambda: len(living.events(Stepped, "j1")) > seen)
            living.want(job, {"far": 2})
            await living.until(lambda: living.on(job) == {"far": 2})
            living.want(job, {"n0": 1})
            await living.until(lambda: living.on(job) == {"n0": 1})
            await finish(living, job)

    live(story)


@pytest.mark.slow
def test_a_gang_over_the_head_and_a_joined_node_meets_and_its_exit_code_is_told(tmp_path: Path) -> None:
    names = '("RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")'
    words = (
        f"import os, time; v = [os.environ[k] for k in {names}]; print(*v, flush=True); open(v[0], 'w').close()\n"
        "while v[0] == '1' and not os.path.exists('0'): time.sleep(0.01)\n"  # a failed gang ends at once
        "raise SystemExit(3 * int(v[0]))"
    )

    async def story() -> None:
        async with site(tmp_path) as living:
            await living.joined("far")
            job = living.launch("j1", 1, sys.executable, "-c", words)
            living.want(job, {"n0": 1, "far": 1})
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert (over.cause, over.code) == (Cause.FAILED, 3)
            logs = tmp_path / "jobs/j1/run/logs"
            said = sorted(path.read_text().strip() for path in logs.glob("w*.log"))
            assert said == ["0 2 0 127.0.0.1", "1 2 1 127.0.0.1"]
            assert begun(living, "far") == {}

    live(story)


@pytest.mark.slow
def test_training_goes_on_while_the_hub_is_killed_and_the_node_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as living:
            far = await living.joined("far")
            job = living.counting()
            living.want(job, {"n0": 1, "far": 1})
            await living.until(lambda: living.on(job) == {"n0": 1, "far": 1})
            for _ in range(2):
                hub, joins = living.hub_pid(), far.said().count("joined")
                assert hub is not None
                os.kill(hub, signal.SIGKILL)
                await living.until(lambda old=hub: living.hub_pid() not in (None, old))
                await living.until(lambda seen=joins: far.said().count("joined") > seen)
                seen = len(living.events(Stepped, "j1"))
                await living.until(lambda seen=seen: len(living.events(Stepped, "j1")) > seen + 1)
                await living.until(lambda: "far" in living.engine.nodes())
                await living.until(lambda: living.on(job) == {"n0": 1, "far": 1})
            # The new hub carries requests and the lines of new workers as the old one did.
            living.want(job, {"far": 2})
            await living.until(lambda: living.on(job) == {"far": 2})
            await finish(living, job)

    live(story)


@pytest.mark.slow
def test_a_control_plane_that_is_replaced_finds_joined_nodes_and_their_work(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as living:
            await living.joined("far")
            job = living.counting()
            living.want(job, {"far": 1})
            await living.until(lambda: living.on(job) == {"far": 1})
            pids = {worker.pid for worker in living.engine.processes(job.attempt)}
            hub = living.hub_pid()
            await living.replaced()
            assert living.hub_pid() == hub
            assert set(living.engine.nodes()) == {"n0", "far"}  # at once: nothing was lost
            living.want(job, {"far": 1})
            await living.until(lambda: living.on(job) == {"far": 1})
            assert {worker.pid for worker in living.engine.processes(job.attempt)} == pids
            await finish(living, job)

    live(story)


@pytest.mark.slow
def test_all_ends_on_a_node_that_is_killed_and_survivors_train_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as living:
            far = await living.joined("far")
            job = living.counting()
            living.want(job, {"n0": 1, "far": 1})
            await living.until(lambda: living.on(job) == {"n0": 1, "far": 1})
            family = far.family()
            assert len(family) >= 3  # itself, a fork server, a worker
            first = living.engine.node_facts()["far"].incarnation
            far.kill()
            await living.until(lambda: "far" not in living.engine.nodes())
            await living.until(lambda: not any(map(alive, family)))
            await living.until(lambda: bool(living.events(WorkerLost, "j1")))
            seen = len(living.events(Stepped, "j1"))
            await living.until(lambda: len(living.events(Stepped, "j1")) > seen)
            assert "far" in living.engine.known_nodes()
            living.want(job, {"n0": 1})
            far.start()
            await living.until(lambda: "far" in living.engine.nodes())
            assert living.engine.node_facts()["far"].incarnation != first
            living.want(job, {"n0": 1, "far": 1})
            await living.until(lambda: living.on(job) == {"n0": 1, "far": 1})
            await finish(living, job)

    live(story)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.slow
def test_a_frozen_node_is_lost_within_its_lease_and_what_is_stale_there_ends_before_it_counts(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with site(tmp_path) as living:
            far = await living.joined("far")
            both, alone = living.counting(), living.launch("j2", 1, sys.executable, "-c", WAITING)
            living.want(both, {"n0": 1, "far": 1})
            living.want(alone, {"far": 1})
            await living.until(lambda: living.on(both) == {"n0": 1, "far": 1} and bool(living.running(alone)))
            stale = [w.pid for w in living.engine.processes(alone.attempt)]
            stale += [w.pid for w in living.engine.processes(both.attempt) if w.node == "far"]
            with far.frozen():
                await living.until(lambda: living.engine.node_facts()["far"].suspect)
                await living.until(lambda: "far" not in living.engine.nodes())
                await living.until(lambda: bool(living.events(WorkerLost, "j1")))
                seen = len(living.events(Stepped, "j1"))
                await living.until(lambda: len(living.events(Stepped, "j1")) > seen)
                living.want(both, {"n0": 1})
                living.end(alone, Ending.CANCEL)
                await living.until(lambda: living.over(alone) is not None)
                assert "j2.1" in promised(Layout(living.home), "far")
                living.engine.forget(alone.attempt)
                assert all(map(alive, stale))
            await living.until(lambda: "far" in living.engine.nodes())
            assert not any(map(alive, stale))
            assert promised(Layout(living.home), "far") == set()
            living.want(both, {"n0": 1, "far": 1})
            await living.until(lambda: living.on(both) == {"n0": 1, "far": 1})
            await finish(living, both)

    live(story)


@pytest.mark.slow
def test_a_frozen_hub_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_nodes, "_FROZEN_S", 3.0)

    async def story() -> None:
        async with site(tmp_path) as living:
            await living.joined("far")
            hub = living.hub_pid()
            assert hub is not None
            os.kill(hub, signal.SIGSTOP)
            await living.until(lambda: living.hub_pid() not in (None, hub))
            await living.until(lambda: "far" in living.engine.nodes())

    live(story)


WAITING = "import time; print('here', flush=True); time.sleep(1000)"
