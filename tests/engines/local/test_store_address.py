"""The store in which torchrun scripts meet listens on the job's own address only (M2)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from elastane.engines.contract import Cause
from engines.local.house import SCRIPTS, house, live


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["command", "resizable"])
def test_no_listener_of_a_torchrun_job_is_open_to_other_machines(tmp_path: Path, kind: str) -> None:
    """A command imports PyTorch itself; a resizable one is forked from a process that has."""

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, str(SCRIPTS / "listening.py"), kind=kind)
            living.want(job, {"n0": 2})
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            logs = [path.read_text() for path in sorted((job.run / "logs").glob("w*.log"))]
            assert over is not None
            assert over.cause is Cause.FINISHED, logs
            said = [json.loads(text.splitlines()[-1]) for text in logs]
            assert [one["total"] for one in said] == [2.0, 2.0]
            first = next(one for one in said if one["rank"] == 0)
            assert len(first["listeners"]) >= 2  # the store, and gloo
            assert {address for one in said for address, _ in one["listeners"]} == {"127.0.0.1"}

    live(story)
