"""Workers that leave their loops at different steps never make a step together: newcomers end, or the job does."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from train.running import train


@pytest.mark.slow
@pytest.mark.parametrize("behind", ["evaluate", "loop", "end"])
def test_a_newcomer_whose_own_counter_begins_at_0_ends_and_the_others_go_on(
    behind: str, tmp_path: Path
) -> None:
    outcome = train("counted.py", tmp_path / "run", behind, wishes=[Wish(5, "resize", 2, steps=True)])
    assert outcome.ended.outcome == "finished", outcome.ended
    assert outcome.lost[0].worker == "w2"
    said = {"loop": "into the middle of a loop", "evaluate": "behind their loop", "end": "had ended training"}
    assert said[behind] in outcome.lost[0].cause
    assert "data.steps" in outcome.lost[0].cause
    assert all(lost.worker != "w1" for lost in outcome.lost)
    assert any(line.startswith("trained ") for line in outcome.log().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("behind", ["evaluate", "loop"])
def test_workers_that_began_a_loop_together_and_leave_it_apart_end_the_job_with_one_line(
    behind: str, tmp_path: Path
) -> None:
    outcome = train("counted.py", tmp_path / "run", behind, "1", settings=Settings(workers=2))
    assert outcome.ended.outcome == "failed"
    assert "data.steps" in outcome.ended.cause
    assert "\n" not in outcome.ended.cause
