"""Iterable data without a length trains under ``elastane train`` as it does alone."""

from __future__ import annotations

from pathlib import Path

from train.running import train

EPOCHS, STEPS_EACH = 2, 12


def test_a_stream_of_unknown_length_trains_with_two_workers(tmp_path: Path) -> None:
    found = tmp_path / "found"
    outcome = train("stream.py", tmp_path / "run", str(found), workers=2)
    assert outcome.ended.outcome == "finished"
    assert not outcome.lost
    assert found.read_text().split() == [str(EPOCHS * STEPS_EACH), "2", "2"]
