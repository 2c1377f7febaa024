"""Workers that leave their loops at different steps never make a step together: newcomers end, or the job does."""

from __future__ import annotations

from itertools import pairwise
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


@pytest.mark.slow
@pytest.mark.parametrize("shadow", [True, False], ids=["shadow", "copy"])
def test_after_a_newcomer_that_counted_otherwise_the_next_one_joins_where_a_loop_begins_and_stays(
    shadow: bool, tmp_path: Path
) -> None:
    wish = Wish(5, "resize", 2, steps=True)
    outcome = train("counted_epochs.py", tmp_path / "run", wishes=[wish], settings=Settings(shadow=shadow))
    assert outcome.ended.outcome == "finished", outcome.ended
    assert [lost.worker for lost in outcome.lost] == ["w2"]
    assert [(change.kind, change.after) for change in outcome.resized] == [
        ("grow", 2),
        ("recover", 1),
        ("grow", 2),
    ]
    assert shadow or not any(change.shadow for change in outcome.resized)
    lines = [line.split() for line in outcome.log().splitlines()]
    ends = [int(words[4]) for words in lines if words[:1] == ["epoch"]]
    together = [end for end in ends if end >= outcome.resized[2].step]
    assert together[0] == outcome.resized[2].step
    assert {end - begin for begin, end in pairwise(together)} == {10}
    assert ["missing", "0"] in lines
