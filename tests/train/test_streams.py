"""Iterable data without a length trains under ``elastane train`` as it does alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.running import CHANGES, numbers, train

EPOCHS, STEPS_EACH = 2, 12


def test_a_stream_of_unknown_length_trains_with_two_workers(tmp_path: Path) -> None:
    found = tmp_path / "found"
    outcome = train("stream.py", tmp_path / "run", str(found), workers=2)
    assert outcome.ended.outcome == "finished"
    assert not outcome.lost
    assert found.read_text().split() == [str(EPOCHS * STEPS_EACH), "2", "2", str(EPOCHS)]


@pytest.mark.slow
def test_a_stream_of_unknown_length_is_read_once_in_each_epoch_through_resizes_and_a_kill(
    tmp_path: Path,
) -> None:
    found = tmp_path / "found"
    outcome = train("stream.py", tmp_path / "run", str(found), "--until-enough", wishes=CHANGES)
    assert outcome.ended.outcome == "finished", outcome.ended
    assert [lost.cause for lost in outcome.lost] == ["killed by signal 9"]
    assert max(change.after for change in outcome.resized) == 3
    assert outcome.resized[-1].after == 1
    steps, least, most, epochs = numbers(found)
    assert (least, most) == (epochs, epochs)
    assert steps == epochs * STEPS_EACH
