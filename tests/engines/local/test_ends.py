"""Who may say that an attempt has ended: nobody but whoever held its lock, and not before its processes are gone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from elastane.engines.contract import Launch
from elastane.engines.local.launch_file import ended_json
from elastane.train.exit_cause import FINISHED
from engines.local.house import House, house, live

FORGE = """
import os, sys, time
folder, beat, enough = sys.argv[1:]
with open(os.path.join(folder, "ended.json"), "w") as file:
    file.write(FORGED)
number = 0
while not os.path.exists(enough):
    number += 1
    with open(beat + ".part", "w") as file:
        file.write(f"{number} {os.getpid()}")
    os.replace(beat + ".part", beat)
    time.sleep(0.02)
"""


def forging(living: House, tmp_path: Path) -> tuple[Launch, Path, Path]:
    script, beat, enough = tmp_path / "forge.py", tmp_path / "beat", tmp_path / "enough"
    forged = json.dumps(ended_json(FINISHED, 0.0))
    script.write_text(FORGE.replace("FORGED", repr(forged)))
    folder = living.launch("j1", 1).folder
    return (
        living.launch("j1", 1, sys.executable, str(script), str(folder), str(beat), str(enough)),
        beat,
        enough,
    )


def number(beat: Path) -> int:
    return int(beat.read_text().split()[0])


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_end_that_a_job_wrote_itself_frees_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job, beat, enough = forging(living, tmp_path)
            living.want(job, {"n0": 1})
            await living.until(beat.exists)
            looks = number(beat)
            await living.until(lambda: number(beat) > looks + 50)  # longer than any look at its folder
            assert living.over(job) is None
            enough.touch()
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.at_s > 0.0  # the supervisor's word, not the forged one

    live(story)


def test_an_end_is_told_only_when_the_worker_is_gone(tmp_path: Path) -> None:
    """A forged end, and the supervisor killed: what it says is believed, but first everybody is ended."""

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job, beat, _ = forging(living, tmp_path)
            living.want(job, {"n0": 1})
            await living.until(beat.exists)
            process = living.engine._monitors[job.attempt]._process
            assert process is not None
            process.kill()
            process.wait()
            await living.until(lambda: living.over(job) is not None)
            pid = int(beat.read_text().split()[1])
            assert not lives(pid)

    live(story)
