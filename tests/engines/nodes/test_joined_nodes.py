"""Real jobs on nodes that have joined: they train across machines, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from elastane.engines.contract import Cause
from elastane.train.reports.events import Stepped, WorkerLost
from engines.nodes.cluster import Site, begun, live, site


def counts(out: Path) -> set[str]:
    return set(out.read_text().split())


async def finish(living: Site, job) -> None:  # noqa: ANN001
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
            assert not living.events(WorkerLost, "j1")
            await finish(living, job)

    live(story)
